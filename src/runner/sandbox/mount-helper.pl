# Mounts what runs need and starts them, each in namespaces of its own.
#
# Node cannot call mount(2), and a mount(8) process per mount costs more than the mount itself, so this small process
# stays for as long as the runner. It makes the namespaces of every run and goes into them to mount there what the run
# needs; the one process that it forks for a run waits for that and becomes bubblewrap. What is mounted for a run is seen
# in the run's namespaces alone and is gone, whatever happens, when this process lets go of them and the run is over.
# Nothing in here is ever within reach of a build.
#
# Everything ends when standard input closes, that is at the latest with the runner.
#
# A request is a list of fields, each followed by a NUL, and a line break at the end. The first field says which run is
# meant, or "-" for none. The answer is one line: that name, then "ok" or "no:" and why. Requests may be sent ahead of the
# answers; after one that failed, the others are still tried.
#
# About none:
#   base ETC PROGRAMS DIRECTORIES LINKS OWN
#       says, once, what all sandboxes have alike. To be read only: the machine's directories PROGRAMS, ETC as "etc", and
#       "dev". In their roots: DIRECTORIES, and LINKS (path and target in turns). OWN: the directories that every run has for
#       itself, each with its mode and the place in the root where it shows, or nothing. All have \x01 between them.
#   remove PATH...                 small trees only; "no" when there is more than a little
# About a run:
#   open NAMESPACES IDS UID GID ENTRANCES DESCRIPTORS COMMAND...
#       makes namespaces and forks the process that will become COMMAND, as that user. NAMESPACES: "mount" or "mount+net".
#       IDS: empty, or "FILE:RUN" when files that belong on disk to the user FILE are to belong to the user RUN for this
#       run. ENTRANCES: files of control groups that the process enters first. DESCRIPTORS: what it has open: "N<PATH" a
#       file to read, "N<=" a pipe to read from, "N>=" a pipe to write to, "N<-" a pipe in which nothing ever comes. Both
#       have \x01 between them.
#       The answer is "ok", its process id, and descriptors of this process, to be opened through /proc: for every pipe N
#       its other end ("N=M"), and the namespaces ("mount=M", "net=M"). When the process has ended, "end", its id and its
#       status (-1 for a signal) follow, at any time.
#   furnish FOLDER UID GID         makes its own directories in FOLDER, for that user, and the root that its sandbox will
#                                  bind, under the run's directory as "own" and "root". What is mounted in the root later
#                                  also shows in the sandbox.
#   directory PATH MODE UID GID
#   overlay TARGET OPTIONS         bind SOURCE TARGET ro|rw [mapped]
#   start                          what was forked becomes its command
#   opened                         the other ends are open: those here are closed. It has no answer.
#   close                          ends it; "gone" follows when nothing is left
# A user id of -1 stands for this process's own user.
use strict;
use warnings;

# No module is loaded, because all that is in memory is copied by each fork. Those above 400 are the same everywhere.
my %numbers = (
    arm64 => {
        mount => 40, umount2 => 39, statfs => 43, prctl => 167, unshare => 97, keyctl => 219, setns => 268, ppoll => 73,
        close => 57, dup3 => 24, rt_sigprocmask => 135, setgroups => 159, setgid => 144, setuid => 146, exit_group => 94,
    },
    x64 => {
        mount => 165, umount2 => 166, statfs => 137, prctl => 157, unshare => 272, keyctl => 250, setns => 308, ppoll => 271,
        close => 3, dup3 => 292, rt_sigprocmask => 14, setgroups => 116, setgid => 106, setuid => 105, exit_group => 231,
    },
);
my ($machine) = @ARGV;
my $call = $numbers{$machine};
my ( $EPERM, $ENOENT, $ESRCH, $ENOTDIR, $ENOSYS, $ENOTEMPTY, $ELOOP ) = ( 1, 2, 3, 20, 38, 39, 40 );
my ( $SIG_BLOCK, $SIG_SETMASK, $SIGKILL, $SIGCHLD, $WNOHANG ) = ( 0, 2, 9, 17, 1 );
my ( $OPEN_TREE, $MOVE_MOUNT, $MOUNT_SETATTR ) = ( 428, 429, 442 );
my ( $MS_RDONLY, $MS_NOSUID, $MS_NODEV, $MS_NOEXEC, $MS_REMOUNT ) = ( 1, 2, 4, 8, 32 );
my ( $MS_BIND, $MS_MOVE, $MS_REC, $MS_SHARED, $MNT_DETACH ) = ( 4096, 8192, 1 << 14, 1 << 20, 2 );
my ( $NEW_MOUNTS, $NEW_USERS, $NEW_NETWORK )          = ( 0x20000, 0x10000000, 0x40000000 );
my ( $PR_SET_PDEATHSIG, $PR_SET_CHILD_SUBREAPER ) = ( 1, 36 );
my ( $JOIN_SESSION_KEYRING, $CLOSE_ON_EXEC ) = ( 1, 0x80000 );
my ( $base, $run_directory ) = ( '/sys/base', '/sys/run' );
my ( $root, $belongings, $nook ) = map { "$run_directory/$_" } qw(root own nook);

# What all sandboxes have alike: mounts and directories of the root, its links, and the directories that a run owns.
my ( @mounts, @directories, @links, @own );
my $me   = $$;

# A run: its process, and what is kept open for it. Whose process an id is.
my ( %runs, %names );

# In which namespaces this process is: those of a run, or "-" for its own.
my ( $inside, $own_mounts, $own_network ) = ('-');

# The file that lists the children of this process.
my $children;
umask 022;

# Answers to requests that came together go together: every message wakes the runner.
my $answers = '';
sub answer { my ( $name, $text ) = @_; $answers .= "$name $text\n" }

sub send_answers {
    while ( $answers ne '' ) {
        my $length = syswrite STDOUT, $answers or last;
        substr $answers, 0, $length, '';
    }
}

sub enter {
    my ($name) = @_;
    return 1 if $name eq $inside;
    syscall( $call->{setns}, fileno( $name eq '-' ? $own_mounts : $runs{$name}{mount} ), $NEW_MOUNTS ) == 0 or return 0;
    $inside = $name;
    return 1;
}

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
        if ( -l $path ) { $! = $ELOOP; return 0 }
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
    my $id_map = $runs{$inside}{id_map};
    return bind_mapped( $source, $target, $flags, $id_map ) if $mapped && $id_map;
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
    my ( $source, $target, $flags, $id_map ) = @_;
    my ( $HERE, $CLONE, $EMPTY_PATH, $ID_MAP ) = ( -100, 1, 0x1000, 0x100000 );
    my $empty = '';
    my $tree = syscall( $OPEN_TREE, $HERE, $source, $CLONE | $CLOSE_ON_EXEC );
    return 0 if $tree < 0;
    my $attributes = pack 'Q4', $flags | $ID_MAP, 0, 0, fileno $id_map;
    my $done = syscall( $MOUNT_SETATTR, $tree, $empty, $EMPTY_PATH, $attributes, length $attributes ) == 0
      && syscall( $MOVE_MOUNT, $tree, $empty, $HERE, $target, 4 ) == 0;
    my $why = $! + 0;
    syscall( $call->{close}, $tree );
    $! = $why;
    return $done;
}

# The user namespace that a run begins in carries the translation of owners. Root stays root in it, or an overlay could
# not make the files of its own that lie between its layers.
sub map_ids {
    my ( $pid, $file, $run ) = @_;
    my $map = "0 0 1\n$file $run 1\n";
    write_file( "/proc/$pid/$_", $map ) or return for qw(uid_map gid_map);
    open my $space, '<', "/proc/$pid/ns/user" or return;
    return $space;
}

sub write_file {
    my ( $path, $text ) = @_;
    open my $file, '>', $path or return 0;
    return defined( syswrite $file, $text ) && close $file;
}

# What every sandbox shows is put together once, with its flags; a run has it by one mount for each part. All of it is the
# machine's own and cannot be written to.
sub make_base {
    my ( $etc, $programs, $directories, $links, $own ) = @_;
    @mounts      = ( 'dev', 'etc', split /\x01/, $programs );
    @directories = split /\x01/, $directories;
    @links       = groups_of( 2, $links );
    @own         = groups_of( 3, $own );
    mkdir($base) && make_devices("$base/dev") or return 0;
    for my $name ( @mounts[ 1 .. $#mounts ] ) {
        my $place = "$base/$name";
        mkdir($place) && mount_at( $name eq 'etc' ? $etc : "/$name", $place, 'none', $MS_BIND | $MS_REC, '' ) or return 0;
        restrict( $_, $MS_RDONLY | $MS_NOSUID | $MS_NODEV ) or return 0 for mounts_in($place);
    }
    return 1;
}

sub groups_of {
    my ( $size, $text ) = @_;
    my @fields = split /\x01/, $text, -1;
    my @groups;
    push @groups, [ splice @fields, 0, $size ] while @fields;
    return @groups;
}

# As bubblewrap's --dev has them. What a run writes to, its terminals and shared memory, is mounted there for each.
sub make_devices {
    my ($dev) = @_;
    mkdir($dev) && mount_at( 'dev', $dev, 'tmpfs', $MS_NOSUID | $MS_NODEV, 'mode=0755,size=64k' ) or return 0;
    for my $name (qw(null zero full random urandom tty)) {
        write_file( "$dev/$name", '' ) && mount_at( "/dev/$name", "$dev/$name", 'none', $MS_BIND, '' ) or return 0;
        restrict( "$dev/$name", $MS_NOSUID ) or return 0;
    }
    mkdir "$dev/$_" or return 0 for qw(pts shm);
    my %links = ( fd => '/proc/self/fd', core => '/proc/kcore', ptmx => 'pts/ptmx' );
    $links{ ( 'stdin', 'stdout', 'stderr' )[$_] } = "/proc/self/fd/$_" for 0 .. 2;
    symlink $links{$_}, "$dev/$_" or return 0 for keys %links;
    return restrict( $dev, $MS_RDONLY | $MS_NOSUID | $MS_NODEV );
}

# What a mount forbids by itself stays forbidden: in a user's own namespace it could not be allowed anyway.
sub restrict {
    my ( $place, $flags ) = @_;
    my $facts = "\0" x 256;
    syscall( $call->{statfs}, $place, $facts ) == 0 or return 0;
    return mount_at( 'none', $place, 'none', $MS_REMOUNT | $MS_BIND | $flags | unpack( 'x80 Q', $facts ) & 15, '' );
}

# A place where something is mounted, and all below it.
sub mounts_in {
    my ($place) = @_;
    open my $list, '<', '/proc/self/mountinfo' or return;
    my @places = map { ( split ' ' )[4] } <$list>;
    s/\\([0-7]{3})/chr oct $1/ge for @places;
    return grep { $_ eq $place || index( $_, "$place/" ) == 0 } @places;
}

# Nobody sees the root yet, and what was given its flags before hands them on: each place takes one mount.
sub furnish {
    my ( $folder, $uid, $gid ) = @_;
    mkdir($root) && mount_at( $root, $root, 'none', $MS_BIND, '' ) && mount_at( 'none', $root, 'none', $MS_SHARED, '' )
      or return 0;
    mkdir "$root/$_" or return 0 for @mounts, @directories;
    symlink $_->[1], "$root/$_->[0]" or return 0 for @links;
    mount_at( "$base/$_", "$root/$_", 'none', $MS_BIND | $MS_REC, '' ) or return 0 for @mounts;
    mount_at( 'shm', "$root/dev/shm", 'tmpfs', $MS_NOSUID | $MS_NODEV, 'mode=1777' )
      && mount_at( 'devpts', "$root/dev/pts", 'devpts', $MS_NOSUID | $MS_NOEXEC, 'newinstance,ptmxmode=0666,mode=620' )
      && bind_at( $folder, $belongings, 'rw', 'mapped' )
      or return 0;
    for (@own) {
        my ( $name, $mode, $place ) = @$_;
        make_directory( "$folder/$name", $mode, $uid, $gid ) or return 0;
        if ( $place ne '' ) { mount_at( "$belongings/$name", "$root$place", 'none', $MS_BIND, '' ) or return 0 }
    }
    return 1;
}

sub make_directory {
    my ( $path, $mode, $uid, $gid ) = @_;
    return mkdir($path) && chown( $uid, $gid, $path ) && chmod( oct $mode, $path );
}

# Deep or wide trees are left to the caller, who can wait for them without holding up other requests. Most directories are
# empty, so each is tried first. No link is followed.
sub remove_small {
    my ( $path, $budget ) = @_;
    return 1 if rmdir $path;
    return unlink $path if $! == $ENOTDIR;
    return 0            if $! != $ENOTEMPTY;
    opendir my $handle, $path or return 0;
    my @names = grep { $_ ne '.' && $_ ne '..' } readdir $handle;
    closedir $handle;
    for my $name (@names) {
        if ( $$budget-- <= 0 ) { $! = $ENOTEMPTY; return 0 }
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

# What the process of a run is to have open, and the other ends of its pipes.
sub open_descriptors {
    my ( $run, $uid, $gid, $descriptors ) = @_;
    my %own;
    for ( split /\x01/, $descriptors ) {
        my ( $number, $sign, $what ) = /^(\d+)([<>])(.*)$/s or die "not a descriptor: $_";
        if ( $what eq '=' || $what eq '-' ) {
            my ( $reading, $writing ) = make_pipe( $uid, $gid ) or return;
            ( $own{$number}, my $other ) = $sign eq '<' ? ( $reading, $writing ) : ( $writing, $reading );
            if   ( $what eq '-' ) { $run->{kept} = $other }
            else                  { $run->{other_ends}{$number} = $other }
        }
        else { open $own{$number}, '<', $what or return }
    }
    return \%own;
}

# Answers the words that follow "ok". What fails leaves nothing: the caller lets go of the run. Whatever came of it, this
# process is in its own network again: a run's is for that run.
sub open_run {
    my $words = try_to_open(@_);
    my $why   = $! + 0;
    syscall( $call->{setns}, fileno $own_network, $NEW_NETWORK ) == 0 or die "cannot come back: $!" if $_[1] eq 'mount+net';
    $! = $why;
    return $words;
}

sub try_to_open {
    my ( $name, $namespaces, $ids, $uid, $gid, $entrances, $descriptors, @command ) = @_;
    my $run = $runs{$name} = {};
    enter('-') or return 0;
    my @entrances;
    for my $file ( split /\x01/, $entrances ) {
        open my $entrance, '>', $file or return 0;
        push @entrances, $entrance;
    }
    my $own = open_descriptors( $run, $uid, $gid, $descriptors ) or return 0;
    pipe( my $told, my $tell ) && pipe( my $wait, $run->{go} ) or return 0;
    my $with_network = $namespaces eq 'mount+net';
    syscall( $call->{unshare}, $NEW_MOUNTS | ( $with_network ? $NEW_NETWORK : 0 ) ) == 0 or return 0;
    $inside = $name;
    open $run->{mount}, '<', '/proc/self/ns/mnt' or return 0;
    if ($with_network) { open $run->{net}, '<', '/proc/self/ns/net' or return 0 }
    mount_at( 'run', $run_directory, 'tmpfs', $MS_NOSUID | $MS_NODEV, 'mode=0755,size=1m' ) && mkdir $nook or return 0;

    my $pid = fork_with( sub {
        my $settled;
        eval {
            become( $uid, $gid );
            # By that user: what the kernel counts by user, it counts for the maker of a namespace too.
            if ($ids) { syscall( $call->{unshare}, $NEW_USERS ) == 0 or die "cannot make a user namespace: $!\n" }
            # Bubblewrap asks for the same, but only once it is up.
            syscall( $call->{prctl}, $PR_SET_PDEATHSIG, $SIGKILL, 0, 0, 0 );
            leave(0) if getppid() != $me;
            syswrite $tell, '.';
            for my $entrance (@entrances) { syswrite $entrance, '0' or die "cannot enter a control group: $!\n" }
            close $run->{go};
            sysread( $wait, my $go, 1 ) or leave(0);    # let go of before it began
            # First out of the way, then each to its place: one may lie where another belongs.
            for ( keys %$own ) { syscall( $call->{dup3}, fileno $own->{$_}, 200 + $_, $CLOSE_ON_EXEC ) }
            for ( keys %$own ) { syscall( $call->{dup3}, 200 + $_, $_ + 0, 0 ) }
            $settled = 1;
            no warnings 'exec';
            exec {$command[0]} @command or die "$command[0]: $!\n";
        };
        syswrite( ( $settled ? \*STDERR : $own->{2} ), $@ );
        leave(125);
    } );
    defined $pid or return 0;
    ( $names{$pid}, $run->{pid} ) = ( $name, $pid );
    close $tell;
    if ( my ( $file, $to ) = $ids =~ /^(\d+):(\d+)$/ ) {
        my $word;
        if ( !sysread $told, $word, 1 ) { $! = $EPERM; return 0 }
        $run->{id_map} = map_ids( $pid, $file, $to ) or return 0;
    }
    my %kept = ( %{ $run->{other_ends} }, map { $run->{$_} ? ( $_ => $run->{$_} ) : () } qw(mount net) );
    return join ' ', $pid, map { "$_=" . fileno $kept{$_} } keys %kept;
}

sub fork_with {
    my ($work) = @_;
    my $pid = fork;
    return $pid if $pid || !defined $pid;
    $SIG{CHLD} = $SIG{PIPE} = 'DEFAULT';
    hold_back( $SIG_SETMASK, 0 );
    $work->();
}

# Ends this process alone: nothing is tidied up that belongs to the one that it was forked from.
sub leave { my ($status) = @_; syscall( $call->{exit_group}, $status + 0 ) }

sub hold_back {
    my ( $how, $signals ) = @_;
    my $set = pack 'Q', $signals;
    syscall( $call->{rt_sigprocmask}, $how, $set, 0, 8 );
}

sub become {
    my ( $uid, $gid ) = @_;
    if ( $uid >= 0 ) {
        my $groups = pack 'L', $gid;
        syscall( $call->{setgroups}, 1, $groups ) == 0
          && syscall( $call->{setgid}, $gid + 0 ) == 0
          && syscall( $call->{setuid}, $uid + 0 ) == 0
          or die "cannot become $uid: $!\n";
        die "still root\n" if $> != $uid || $) ne "$gid $gid";
    }
    # A session keyring of its own, without a name: what the runner's session holds is nobody else's.
    syscall( $call->{keyctl}, $JOIN_SESSION_KEYRING, 0 ) >= 0
      or $! == $ENOSYS
      or die "cannot make a session keyring: $!\n";
}

sub is_open { my $run = $runs{ $_[0] }; return $run && $run->{mount} }

sub let_go {
    my ($name) = @_;
    my $run = $runs{$name} or return answer( $name, 'gone' );
    enter('-');
    $run->{over} = 1;
    return kill KILL => $run->{pid} if $run->{pid};    # its end lets go
    delete $runs{$name};
    answer( $name, 'gone' );
}

# Whom nobody here has forked was a child of a bubblewrap that died before its time. It would wait for that for ever.
sub end_strangers {
    kill KILL => grep { !$names{$_} } children();
}

sub children {
    my $all = '';
    sysseek $children, 0, 0;
    1 while sysread $children, $all, 4096, length $all;
    return split ' ', $all;
}

sub reap {
    while ( ( my $pid = waitpid -1, $WNOHANG ) > 0 ) {
        my $name = delete $names{$pid} // next;
        delete $runs{$name}{pid};
        answer( $name, "end $pid " . ( $? & 127 ? -1 : $? >> 8 ) );
        end_strangers();
        let_go($name) if $runs{$name}{over};
    }
}

my %for_run = (
    furnish   => \&furnish,
    directory => \&make_directory,
    overlay   => sub { make_way( $_[0] ) && mount_at( 'overlay', $_[0], 'overlay', $MS_NOSUID | $MS_NODEV, $_[1] ) },
    bind      => \&bind_at,
    start     => sub { syswrite $runs{$inside}{go}, '.' },
);

sub remove {
    my $budget = 64;
    for my $path (@_) { remove_small( $path, \$budget ) or $! == $ENOENT or return 0 }
    return 1;
}

# Answers what went wrong, if anything did.
sub prepare {
    return "the system calls of $machine are not known here" if !$call;
    # What bubblewrap has started becomes a child of this process, should bubblewrap die before its time.
    syscall( $call->{prctl}, $PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0 );
    # What is mounted below /sys goes: every mount costs a run a little, because its namespace begins as a copy.
    syscall( $call->{umount2}, my $sys = '/sys', $MNT_DETACH );
    # It becomes the place for what is put together: nothing that the runner keeps can lie there.
    mount_at( 'runs', '/sys', 'tmpfs', $MS_NOSUID | $MS_NODEV, 'mode=0755,size=1m' ) && mkdir $run_directory or return "/sys: $!";
    chdir '/';
    open( $own_mounts, '<', '/proc/self/ns/mnt' ) && open( $own_network, '<', '/proc/self/ns/net' ) or return "namespaces: $!";
    open $children, '<', "/proc/$$/task/$$/children" or return "children: $!";
    return '';
}

sub serve {
    my ( $name, $what, @fields ) = @_;
    return let_go($name) if $what eq 'close';
    if ( $what eq 'opened' ) { $runs{$name}{other_ends} = {} if $runs{$name}; return }
    my $done =
        $what eq 'remove' ? enter('-') && remove(@fields)
      : $what eq 'base'   ? enter('-') && make_base(@fields)
      : $what eq 'open'   ? open_run( $name, @fields )
      : !is_open($name)   ? do { $! = $ESRCH; 0 }
      :                     enter($name) && $for_run{$what}->(@fields);
    answer( $name, $done ? "ok $done" : "no: $!" );
}

my $problem = prepare();
answer( '-', $problem eq '' ? "ok $$" : "no: $problem" );
send_answers();
exit 1 if $problem ne '';

# Processes are heard to end only while this one waits for requests: nothing else is ever interrupted.
$SIG{CHLD} = sub { };
$SIG{PIPE} = 'IGNORE';
hold_back( $SIG_BLOCK, 1 << ( $SIGCHLD - 1 ) );
my ( $requests, $no_signals ) = ( '', "\0" x 8 );
for ( ; ; ) {
    my $input = pack 'i s s', 0, 1, 0;    # POLLIN of standard input
    if ( syscall( $call->{ppoll}, $input, 1, 0, $no_signals, 8 ) < 0 ) { reap() }
    else {
        sysread STDIN, $requests, 1 << 16, length $requests or last;
        my $from = 0;
        while ( ( my $to = index $requests, "\0\n", $from ) >= 0 ) {
            serve( split /\0/, substr( $requests, $from, $to - $from ), -1 );
            $from = $to + 2;
        }
        substr $requests, 0, $from, '';
    }
    send_answers();
}

# Bubblewrap would go with this process, but what it is just opening would not.
while ( my @children = children() ) {
    kill KILL => @children;
    waitpid $_, 0 for @children;
}
