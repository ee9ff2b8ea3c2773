# Mounts what runs need and starts them, each in namespaces of its own.
#
# Node cannot call mount(2), and a mount(8) process per mount costs more than the mount itself, so this small process
# stays for as long as the runner. For every run it forks a helper of that run's own, which enters new namespaces, mounts
# there what the run needs, and starts bubblewrap: a fork costs a fraction of a new process of Node or Perl. What a helper
# mounts is seen in its namespaces alone and is gone, whatever happens, when the helper and the run are gone. A helper
# serves one run and ends with it. Nothing in here is ever within reach of a build.
#
# Everything ends when standard input closes, that is at the latest with the runner.
#
# A request is a list of fields, each followed by a NUL, and a line break at the end. The first field says who is meant: the
# name of a helper, or "-" for this process itself. The answer is one line: that name, then "ok" or "no:" and why. Requests
# may be sent ahead of the answers; after one that failed, the others are still tried.
#
# To this process:
#   open NAME NAMESPACES IDS ENTRANCE...
#       forks a helper. NAMESPACES: "mount" or "mount+net". IDS: empty, or "FILE:RUN" when files that belong on disk to the
#       user FILE are to belong to the user RUN for this run. ENTRANCES: files of control groups that what the helper starts
#       enters first. The helper itself answers "ok" and its process id.
#   remove PATH...                 small trees only; "no" when there is more than a little
# To a helper:
#   directory PATH MODE UID GID
#   root TARGET ENTRY...           a file system of directories ("PATH") and links ("PATH\x01TARGET"). What is mounted in
#                                  it later also appears wherever a sandbox has bound it by then.
#   overlay TARGET OPTIONS         bind SOURCE TARGET ro|rw [mapped]
#   start UID GID DESCRIPTORS COMMAND...
#       DESCRIPTORS: what the process has open, with \x01 between them: "N<PATH" a file to read, "N<=" a pipe to read from,
#       "N>=" a pipe to write to, "N<-" a pipe in which nothing ever comes.
#       The answer is "ok", its process id, and for every pipe N the number of the helper's own descriptor for its other
#       end ("N=M"), to be opened through /proc. When the process has ended, "end", its id and its status (-1 for a
#       signal) follow, at any time.
#   opened                         the other ends are open: the helper's own are closed
#   close                          ends the helper with all that it started; "gone" follows when it is gone
# A user id of -1 stands for this process's own user.
use strict;
use warnings;
use Fcntl ();
use POSIX ();

# perl-base, the part that every Debian has, brings no table of system calls. Those above 400 are the same everywhere.
my %numbers = (
    aarch64 => { mount => 40,  umount2 => 39,  statfs => 43,  prctl => 167, unshare => 97,  keyctl => 219 },
    x86_64  => { mount => 165, umount2 => 166, statfs => 137, prctl => 157, unshare => 272, keyctl => 250 },
);
my $machine = ( POSIX::uname() )[4];
my $call    = $numbers{$machine};
my ( $OPEN_TREE, $MOVE_MOUNT, $MOUNT_SETATTR ) = ( 428, 429, 442 );
my ( $MS_RDONLY, $MS_NOSUID, $MS_NODEV, $MS_REMOUNT ) = ( 1, 2, 4, 32 );
my ( $MS_BIND, $MS_MOVE, $MS_SHARED, $MNT_DETACH )    = ( 4096, 8192, 1 << 20, 2 );
my ( $NEW_MOUNTS, $NEW_USERS, $NEW_NETWORK )          = ( 0x20000, 0x10000000, 0x40000000 );
my $PR_SET_CHILD_SUBREAPER = 36;
my $JOIN_SESSION_KEYRING   = 1;
my $nook = '/sys/nook';
my $me   = '-';
my ( %helpers, %names, @entrances, @other_ends, @kept, $id_map );
$/ = "\0\n";
umask 022;

# One system call for each answer, so that those of different processes never mix.
sub answer { syswrite STDOUT, "$me $_[0]\n" }

sub mount_at {
    my ( $source, $target, $type, $flags, $data ) = @_;    # copies: syscall takes no constants
    return syscall( $call->{mount}, $source, $target, $type, $flags + 0, $data ) == 0;
}

# Makes the directories that lead to a place to mount at. No link is followed on the way: what is mounted already may
# hold any, and they mean something else in here than in a sandbox.
sub make_way {
    my ($target) = @_;
    my $path = '';
    for my $part ( grep { $_ ne '' } split m{/}, $target ) {
        $path .= "/$part";
        if ( -l $path ) { $! = POSIX::ELOOP(); return 0 }
        next if -d _;
        mkdir $path or return 0;
    }
    return 1;
}

# What is mounted shows in the sandbox at once, so it gets its flags in a place of its own and is moved there then.
# What the source's own mount forbids stays forbidden: in a user's own namespace it could not be allowed anyway.
sub bind_at {
    my ( $source, $target, $mode, $mapped ) = @_;
    my $facts = "\0" x 256;
    make_way($target) && syscall( $call->{statfs}, $source, $facts ) == 0 or return 0;
    my $forbidden = unpack( 'x80 Q', $facts ) & 15;
    my $flags     = $forbidden | $MS_NOSUID | $MS_NODEV | ( $mode eq 'ro' ? $MS_RDONLY : 0 );
    return bind_mapped( $source, $target, $flags ) if $mapped && $id_map;
    mount_at( $source, $nook, 'none', $MS_BIND, '' ) or return 0;
    return 1
      if mount_at( 'none', $nook, 'none', $MS_REMOUNT | $MS_BIND | $flags, '' )
      && mount_at( $nook, $target, 'none', $MS_MOVE, '' );
    my $why = $! + 0;
    syscall( $call->{umount2}, $nook, $MNT_DETACH );
    $! = $why;
    return 0;
}

# The same, with the owners of files translated. The flags of mount_setattr(2) for read-only, nosuid, nodev and noexec
# have the values of the older ones.
sub bind_mapped {
    my ( $source, $target, $flags ) = @_;
    my ( $HERE, $CLONE, $CLOSE_ON_EXEC, $EMPTY_PATH, $ID_MAP ) = ( -100, 1, 0x80000, 0x1000, 0x100000 );
    my $empty = '';
    my $tree = syscall( $OPEN_TREE, $HERE, $source, $CLONE | $CLOSE_ON_EXEC );
    return 0 if $tree < 0;
    my $attributes = pack 'Q4', $flags | $ID_MAP, 0, 0, fileno $id_map;
    my $done = syscall( $MOUNT_SETATTR, $tree, $empty, $EMPTY_PATH, $attributes, length $attributes ) == 0
      && syscall( $MOVE_MOUNT, $tree, $empty, $HERE, $target, 4 ) == 0;
    my $why = $! + 0;
    POSIX::close($tree);
    $! = $why;
    return $done;
}

# A user namespace that nobody is in: all it does is to carry the translation. Root stays root, or an overlay could not
# make the files of its own that lie between its layers.
sub open_id_map {
    my ( $file, $run ) = @_;
    local $SIG{CHLD} = 'DEFAULT';
    pipe my $ready, my $tell or return;
    pipe my $wait, my $go or return;
    defined( my $pid = fork ) or return;
    if ( !$pid ) {
        close $_ for $ready, $go;
        syswrite $tell, syscall( $call->{unshare}, $NEW_USERS ) == 0 ? 'y' : 'n';
        sysread $wait, my $never, 1;
        POSIX::_exit(0);
    }
    close $_ for $tell, $wait;
    sysread $ready, my $word, 1;
    my $map;
    if ( $word eq 'y' && write_file( "/proc/$pid/uid_map", "0 0 1\n$file $run 1\n" ) && write_file( "/proc/$pid/gid_map", "0 0 1\n$file $run 1\n" ) ) {
        open $map, '<', "/proc/$pid/ns/user" or undef $map;
    }
    close $go;
    waitpid $pid, 0;
    return $map;
}

sub write_file {
    my ( $path, $text ) = @_;
    open my $file, '>', $path or return 0;
    return defined( syswrite $file, $text ) && close $file;
}

sub make_root {
    my ( $target, @entries ) = @_;
    make_way($target)
      && mount_at( 'sandbox', $target, 'tmpfs', $MS_NOSUID | $MS_NODEV, 'mode=0755,size=1m' )
      && mount_at( 'none', $target, 'none', $MS_SHARED, '' )
      or return 0;
    for (@entries) {
        my ( $path, $link ) = split /\x01/;
        ( defined $link ? symlink( $link, "$target/$path" ) : mkdir("$target/$path") ) or return 0;
    }
    return 1;
}

# Deep or wide trees are left to the caller, who can wait for them without holding up other requests.
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

# Pipes without a name, made for one process alone. They belong to its user, because commands open /dev/stdout.
sub make_pipe {
    my ( $uid, $gid ) = @_;
    pipe my $reading, my $writing or return;
    return if $uid >= 0 && !chown $uid, $gid, $reading;
    return ( $reading, $writing );
}

sub start {
    my ( $uid, $gid, $descriptors, @command ) = @_;
    my ( %own, %other );
    for ( split /\x01/, $descriptors ) {
        my ( $number, $sign, $what ) = /^(\d+)([<>])(.*)$/s or die "not a descriptor: $_";
        if ( $what eq '=' || $what eq '-' ) {
            my ( $reading, $writing ) = make_pipe( $uid, $gid ) or return 0;
            ( $own{$number}, my $other ) = $sign eq '<' ? ( $reading, $writing ) : ( $writing, $reading );
            if   ( $what eq '-' ) { push @kept, $other }
            else                  { $other{$number} = $other }
        }
        else { sysopen $own{$number}, $what, Fcntl::O_RDONLY() or return 0 }
    }
    defined( my $pid = fork ) or return 0;
    if ($pid) {
        push @other_ends, values %other;
        return join ' ', $pid, map { "$_=" . fileno $other{$_} } keys %other;
    }
    eval {
        # Before their descriptors are needed for something else.
        for my $entrance (@entrances) { syswrite $entrance, '0' or die "cannot enter a control group: $!\n" }
        # First out of the way, then each to its place: one may lie where another belongs.
        my %parked = map { $_ => POSIX::dup2( fileno $own{$_}, 200 + $_ ) } keys %own;
        POSIX::dup2( $parked{$_}, $_ ) && POSIX::close( $parked{$_} ) for keys %own;
        if ( $uid >= 0 ) {
            $) = "$gid $gid";
            POSIX::setgid($gid) && POSIX::setuid($uid) or die "cannot become $uid: $!\n";
            die "still root\n" if $> == 0 || $) ne "$gid $gid";
        }
        # A session keyring of its own, without a name: what the runner's session holds is nobody else's.
        syscall( $call->{keyctl}, $JOIN_SESSION_KEYRING, 0 ) >= 0
          or $!{ENOSYS}
          or die "cannot make a session keyring: $!\n";
        no warnings 'exec';
        exec {$command[0]} @command or die "$command[0]: $!\n";
    };
    POSIX::write( 2, $@, length $@ );
    POSIX::_exit(125);
}

my %for_helper = (
    directory => sub {
        my ( $path, $mode, $uid, $gid ) = @_;
        return mkdir($path) && chown( $uid, $gid, $path ) && chmod( oct $mode, $path );
    },
    root    => \&make_root,
    overlay => sub { make_way( $_[0] ) && mount_at( 'overlay', $_[0], 'overlay', $MS_NOSUID | $MS_NODEV, $_[1] ) },
    bind    => \&bind_at,
    start   => \&start,
    opened  => sub { @other_ends = (); return 1 },
);

my %for_this = (
    open   => \&open_helper,
    remove => sub {
        my $budget = 64;
        for my $path (@_) { remove_small( $path, \$budget ) or $!{ENOENT} or return 0 }
        return 1;
    },
);

sub open_helper {
    my ( $name, $namespaces, $ids, @files ) = @_;
    pipe my $requests, my $control or return 0;
    defined( my $pid = fork ) or return 0;
    if ( !$pid ) {
        close $_ for $control, values %helpers;
        open STDIN, '<', '/dev/null';
        ( %helpers, %names ) = ();
        $me = $name;
        help( $requests, $namespaces, $ids, @files );
        POSIX::_exit(0);
    }
    ( $helpers{$name}, $names{$pid} ) = ( $control, $name );
    return '';    # the helper answers
}

sub help {
    my ( $requests, $namespaces, $ids, @files ) = @_;
    # What bubblewrap has started becomes a child of this process, should it die before its time.
    syscall( $call->{prctl}, $PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0 );
    my $problem = prepare( $namespaces, $ids, @files );
    answer( $problem eq '' ? "ok $$" : "no: $problem" );
    while ( $problem eq '' && defined( my $line = <$requests> ) ) {
        chomp $line;
        my ( $name, @fields ) = split /\0/, $line, -1;
        my $done = $for_helper{$name}->(@fields);
        answer( $done ? "ok $done" : "no: $!" );
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
}

# Answers what went wrong, if anything did.
sub prepare {
    my ( $namespaces, $ids, @files ) = @_;
    for my $file (@files) {    # opened while they can be seen
        open my $entrance, '>', $file or return "$file: $!";
        push @entrances, $entrance;
    }
    my $new = $NEW_MOUNTS | ( $namespaces eq 'mount+net' ? $NEW_NETWORK : 0 );
    syscall( $call->{unshare}, $new ) == 0 or return "unshare: $!";
    if ( my ( $file, $run ) = $ids =~ /^(\d+):(\d+)$/ ) {
        $id_map = open_id_map( $file, $run ) or return "a translation of user numbers: $!";
    }
    # /sys becomes the place for what is put together: nothing that a runner keeps can lie there, so covering it hides
    # nothing. What is mounted there goes first: every mount costs a run a little, because its namespace begins as a copy.
    syscall( $call->{umount2}, my $sys = '/sys', $MNT_DETACH );
    mount_at( 'helper', '/sys', 'tmpfs', $MS_NOSUID | $MS_NODEV, 'mode=0755,size=1m' ) && mkdir $nook or return "/sys: $!";
    chdir '/';
    return '';
}

# Signals are handled between two operations, so this never cuts through an answer.
$SIG{CHLD} = sub {
    while ( ( my $pid = waitpid -1, POSIX::WNOHANG() ) > 0 ) {
        my $name = delete $names{$pid};
        if ( defined $name ) {
            delete $helpers{$name};
            syswrite STDOUT, "$name gone\n";
        }
        else { answer( "end $pid " . ( $? & 127 ? -1 : $? >> 8 ) ) }
    }
};
$SIG{PIPE} = 'IGNORE';

if ( !$call ) { answer("no: the system calls of $machine are not known here"); exit 1 }
answer('ok');

while ( my $line = <STDIN> ) {
    my ( $to, $rest ) = split /\0/, $line, 2;
    if ( $to eq '-' ) {
        chomp $rest;
        my ( $name, @fields ) = split /\0/, $rest, -1;
        my $done = $for_this{$name}->(@fields);
        answer( defined $done && $done ne '0' ? "ok $done" : "no: $!" ) if $name ne 'open' || $done ne '';
    }
    elsif ( $rest eq "close\0\n" ) { delete $helpers{$to} }
    elsif ( $helpers{$to} )        { syswrite $helpers{$to}, $rest }
}

# The helpers see the end of their requests, and take with them what they have started.
$SIG{CHLD} = 'DEFAULT';
%helpers = ();
1 while waitpid( -1, 0 ) > 0;
