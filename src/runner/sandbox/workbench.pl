# The workbench of one slot: mounts what a run needs, inside a mount namespace of its own, and starts the run there.
#
# Node cannot call mount(2), and a mount(8) process per mount costs more than the mount itself, so
# this small process stays for as long as its slot. It is started by unshare(1); what it mounts is
# seen in its namespace alone and is gone, whatever happens, when it is gone. It goes when its
# standard input closes, that is at the latest with the runner, and takes with it what it has
# started. It starts bubblewrap too, because a fork of it costs a fraction of one of Node, and its
# children are in its namespaces from birth.
#
# A request is a list of fields, each followed by a NUL, and a line break at the end; the answer is one line, "ok" or "no"
# and why. Requests may be sent ahead of the answers; after one that failed, the others are still tried.
#   directory PATH MODE UID GID    fifo PATH UID GID
#   stage TARGET ENTRY...          a file system of directories ("PATH") and links ("PATH\x01TARGET"). What is mounted in
#                                  it later also appears wherever a sandbox has bound it by then.
#   overlay TARGET OPTIONS         bind SOURCE TARGET ro|rw
#   clear TARGET...                unmounts, and removes the directories that were made for it
#   remove PATH...                 small trees only; "no" when there is more than a little
#   start UID GID PIPES COMMAND...
#     PIPES: how the process is connected, as "DESCRIPTOR<PATH" (it reads), "DESCRIPTOR>PATH" (it writes) or
#            "DESCRIPTOR+PATH" (both), with \x01 between them
#     The answer is "ok" and its process id. When it has ended, "end", the id and the status (-1 for a signal)
#     follow, at any time.
# A user id of -1 stands for this process's own user. The arguments of this program are files of control groups;
# whatever it starts enters them first.
use strict;
use warnings;
use Fcntl ();
use POSIX ();

# perl-base, the part that every Debian has, brings no table of system calls.
my %numbers = (
    aarch64 => { mount => 40,  umount2 => 39,  statfs => 43,  prctl => 167 },
    x86_64  => { mount => 165, umount2 => 166, statfs => 137, prctl => 157 },
);
my $machine = ( POSIX::uname() )[4];
my $call    = $numbers{$machine};
my ( $MS_RDONLY, $MS_NOSUID, $MS_NODEV, $MS_REMOUNT ) = ( 1, 2, 4, 32 );
my ( $MS_BIND, $MS_MOVE, $MS_SHARED, $MNT_DETACH )    = ( 4096, 8192, 1 << 20, 2 );
my $PR_SET_CHILD_SUBREAPER = 36;
my $nook = '/sys/nook';
my ( @entrances, %made );
$| = 1;
$/ = "\0\n";
umask 022;
if ( !$call ) { answer("no: the system calls of $machine are not known here"); exit 1 }

sub answer { print "$_[0]\n" }

sub mount_at {
    my ( $source, $target, $type, $flags, $data ) = @_;    # copies: syscall takes no constants
    return syscall( $call->{mount}, $source, $target, $type, $flags + 0, $data ) == 0;
}

# Makes the directories that lead to a place to mount at. No link is followed on the way: what is mounted already may
# hold any, and they mean something else in here than in a sandbox.
sub make_way {
    my ($target) = @_;
    my $path = '';
    my @new;
    for my $part ( grep { $_ ne '' } split m{/}, $target ) {
        $path .= "/$part";
        if ( -l $path ) { $! = POSIX::ELOOP(); return 0 }
        next if -d _;
        mkdir $path or return 0;
        push @new, $path;
    }
    $made{$target} = \@new if @new;
    return 1;
}

# A mount on a stage is seen at once in the sandbox, so it gets its flags in a place of its own and is moved there then.
# What the source's own mount forbids stays forbidden: in a user's own namespace it could not be allowed anyway.
sub bind_at {
    my ( $source, $target, $mode ) = @_;
    my $facts = "\0" x 256;
    make_way($target) && syscall( $call->{statfs}, $source, $facts ) == 0 or return 0;
    my $forbidden = unpack( 'x80 Q', $facts ) & 15;
    my $flags     = $forbidden | $MS_NOSUID | $MS_NODEV | ( $mode eq 'ro' ? $MS_RDONLY : 0 );
    mount_at( $source, $nook, 'none', $MS_BIND, '' ) or return 0;
    return 1
      if mount_at( 'none', $nook, 'none', $MS_REMOUNT | $MS_BIND | $flags, '' )
      && mount_at( $nook, $target, 'none', $MS_MOVE, '' );
    my $why = $! + 0;
    syscall( $call->{umount2}, $nook, $MNT_DETACH );
    $! = $why;
    return 0;
}

sub set_stage {
    my ( $target, @entries ) = @_;
    make_way($target)
      && mount_at( 'stage', $target, 'tmpfs', $MS_NOSUID | $MS_NODEV, 'mode=0755,size=1m' )
      && mount_at( 'none', $target, 'none', $MS_SHARED, '' )
      or return 0;
    for (@entries) {
        my ( $path, $link ) = split /\x01/;
        ( defined $link ? symlink( $link, "$target/$path" ) : mkdir("$target/$path") ) or return 0;
    }
    return 1;
}

# Deep or wide trees are left to the caller, who can wait for them without holding up this slot's other requests.
sub remove_small {
    my ( $path, $budget ) = @_;
    return unlink $path if -l $path || !-d _;
    opendir my $handle, $path or return 0;
    my @names = grep { $_ ne '.' && $_ ne '..' } readdir $handle;
    closedir $handle;
    for my $name (@names) {
        if ( $$budget-- <= 0 ) { $! = POSIX::ENOTEMPTY(); return 0 }
        remove_small( "$path/$name", $budget ) or return 0;
    }
    return rmdir $path;
}

# Opened without waiting for the other side, which is there already or gone for ever; used with waiting.
sub open_pipe {
    my ( $sign, $path ) = @_;
    my %modes = ( '<' => Fcntl::O_RDONLY(), '>' => Fcntl::O_WRONLY(), '+' => Fcntl::O_RDWR() );
    sysopen my $pipe, $path, $modes{$sign} | Fcntl::O_NONBLOCK() or return;
    fcntl $pipe, Fcntl::F_SETFL(), 0 or return;
    return $pipe;
}

sub start {
    my ( $uid, $gid, $pipes, @command ) = @_;
    my %pipes;
    for ( split /\x01/, $pipes ) {
        my ( $descriptor, $sign, $path ) = /^(\d+)([<>+])(.*)$/s or die "not a pipe: $_";
        $pipes{$descriptor} = open_pipe( $sign, $path ) or return 0;
    }
    defined( my $pid = fork ) or return 0;
    return $pid if $pid;
    eval {
        # Before their descriptors are needed for something else.
        for my $entrance (@entrances) { syswrite $entrance, '0' or die "cannot enter a control group: $!\n" }
        # First out of the way, then each to its place: one may lie where another belongs.
        my %parked = map { $_ => POSIX::dup2( fileno $pipes{$_}, 100 + $_ ) } keys %pipes;
        POSIX::dup2( $parked{$_}, $_ ) && POSIX::close( $parked{$_} ) for keys %pipes;
        if ( $uid >= 0 ) {
            $) = "$gid $gid";
            POSIX::setgid($gid) && POSIX::setuid($uid) or die "cannot become $uid: $!\n";
            die "still root\n" if $> == 0 || $) ne "$gid $gid";
        }
        no warnings 'exec';
        exec {$command[0]} @command or die "$command[0]: $!\n";
    };
    POSIX::write( 2, $@, length $@ );
    POSIX::_exit(125);
}

# Signals are handled between two operations, so this never cuts through an answer.
$SIG{CHLD} = sub {
    while ( ( my $pid = waitpid -1, POSIX::WNOHANG() ) > 0 ) { answer( "end $pid " . ( $? & 127 ? -1 : $? >> 8 ) ) }
};

my %requests = (
    directory => sub {
        my ( $path, $mode, $uid, $gid ) = @_;
        return mkdir($path) && chown( $uid, $gid, $path ) && chmod( oct $mode, $path );
    },
    remove => sub {
        my $budget = 64;
        for my $path (@_) { remove_small( $path, \$budget ) or $!{ENOENT} or return 0 }
        return 1;
    },
    stage   => \&set_stage,
    overlay => sub { make_way( $_[0] ) && mount_at( 'overlay', $_[0], 'overlay', $MS_NOSUID | $MS_NODEV, $_[1] ) },
    bind    => \&bind_at,
    fifo    => sub { POSIX::mkfifo( $_[0], 0600 ) && chown $_[1], $_[2], $_[0] },
    start   => \&start,
    # Detached, because the namespaces of the dead run may not be gone yet, and must not hold up the next.
    clear => sub {
        for my $target (@_) {
            return 0 if syscall( $call->{umount2}, $target, $MNT_DETACH ) != 0;
            for ( reverse @{ delete $made{$target} || [] } ) { rmdir or return 0 }
        }
        return 1;
    },
);

# What bubblewrap has started becomes a child of this process, should it die before its time.
syscall( $call->{prctl}, $PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0 );

# Opened while they can be seen.
for my $file (@ARGV) {
    open my $entrance, '>', $file or do { answer("no: $file: $!"); exit 1 };
    push @entrances, $entrance;
}

# /sys becomes the bench: nothing that a runner keeps can lie there, so covering it hides nothing. What is mounted there
# goes first, where that is allowed: every mount costs each run a little, because its namespace begins as a copy.
syscall( $call->{umount2}, my $sys = '/sys', $MNT_DETACH );
if ( !mount_at( 'bench', '/sys', 'tmpfs', $MS_NOSUID | $MS_NODEV, 'mode=0755,size=1m' ) || !mkdir $nook ) {
    answer("no: $!");
    exit 1;
}
chdir '/';
answer('ok');

while ( my $line = <STDIN> ) {
    chomp $line;
    my ( $name, @fields ) = split /\0/, $line, -1;
    my $done = $requests{$name}->(@fields);
    if   ($done) { answer("ok $done") }
    else         { answer("no: $!") }
}

# Nobody is left who could ask. Bubblewrap would go with this process, but what it is just opening would not.
$SIG{CHLD} = 'DEFAULT';
for ( ;; ) {
    open my $list, '<', "/proc/$$/task/$$/children" or last;
    local $/;
    my @children = split ' ', <$list> // '';
    last if !@children;
    kill KILL => @children;
    waitpid $_, 0 for @children;
}
