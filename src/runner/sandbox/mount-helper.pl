# Makes the mounts of runs and starts their processes, each run in its own namespaces.
#
# Node cannot call mount(2), and a mount(8) process per mount costs more than the mount itself. So this small process
# lives as long as the runner. It makes the namespaces of every run, and enters them to mount the run's directories. One
# process is forked for each run (starter.pl); it waits for the mounts and then becomes bubblewrap. When the run is over,
# another one closes its namespaces. The mounts of a run are visible in the run's namespaces only, and are gone with them, in
# every case. A build can never reach anything in here.
#
# Everything ends when standard input closes, that is at the latest with the runner.
#
# A request is a list of fields, each followed by a NUL, and a line break at the end. The first field is the name of a
# run, or "-" for none. The answer is one line: that name, then "ok", or "no:" and the reason. Requests may be sent
# before earlier ones are answered; after a failed request, the next ones are still tried.
#
# Without a run:
#   base ETC PROGRAMS DIRECTORIES LINKS OWN
#       sets, once, the parts that all sandboxes share. Read-only: the machine's directories PROGRAMS, ETC as "etc", and
#       "dev". In their roots: DIRECTORIES, and LINKS (path and target in turns). OWN: the directories that every run
#       has for itself, each with its mode and its place in the root, or an empty place. Lists have \x01 as separator.
# For a run:
#   open NAMESPACES IDS UID GID ENTRANCES DESCRIPTORS COMMAND...
#       makes namespaces and forks the process that will become COMMAND, as that user. NAMESPACES: "mount",
#       "mount+net", or "mount+net=PATH" to join the network of another run. IDS: empty, or "FILE:RUN": files that belong to the user FILE on disk belong to the user RUN in this
#       run. Or "FILE:FIRST+COUNT": the run gets one of COUNT ranges of IDs, the first of which begins with FIRST, and a user
#       namespace in which they begin with 0. The process is root in it, makes no further ones, and UID and GID say who its
#       command will be there. Or the same followed by "+nesting": it may make further ones. Or "FIRST": the same with one range that
#       all runs share, for who cannot translate owners of files: those are translated by the user namespace itself. ENTRANCES: files
#       of control groups that the process enters first. DESCRIPTORS: its open descriptors:
#       "N<PATH" a file to read, "N<=" a pipe to read from, "N>=" a pipe to write to. Both lists have \x01 as separator.
#       The answer is "ok", the process id, and descriptors of this process, to be opened through /proc: for every pipe N
#       its other end ("N=M"), the namespaces ("mount=M", "net=M"), and who its command will be, out here ("uid=N", "gid=N"). When the
#       process has ended, "end", its id, its status (-1 for a signal) and the bytes that it and its children wrote to disks
#       follow, at any time.
#   furnish FOLDER UID GID         makes the run's own directories in FOLDER, for that user, and the root that its
#                                  sandbox will bind, under the run's directory as "own" and "root". Later mounts in the
#                                  root also appear in the sandbox. The answer has descriptors of this process: those of
#                                  the files "env", "secret-env" and "summary" in /dev/shm/headrace of the sandbox.
#   directory PATH MODE UID GID
#   adjust PATH MODE SECONDS NANOSECONDS
#       gives a directory a mode, and these as its time
#   renew FOLDER TO NAMES          moves these directories of a folder into a new one there, and makes empty ones like them. Each
#       name comes with its seconds and nanoseconds, with \x01 as separator.
#   overlay TARGET OPTIONS         its layers are places that were bound before, or directories that only the runner fills
#   bind SOURCE TARGET ro|rw OWNERS file|
#       SOURCE is a directory, or a file to cover one that is there, without a link anywhere in its path. OWNERS: "files" for what
#       belongs to whoever runs, "image" for the files of an image, which keep the owners that it gave them; empty for no translation.
#   image DIRECTORY again|
#       the entries of this directory replace all of the root but the sandbox's own places. The sandbox must be open and wait.
#       With "again" they cover those of the directory that was shown before.
#   sys TARGET                     shows there, read-only, what the kernel tells of the machine and of the run's network
#   traffic                        the answer has the bytes that the run's own network received and sent
#   start                          the forked process becomes its command
#   opened                         the other ends are open: those here are closed. It has no answer.
#   close                          ends the run; "gone" follows when nothing is left, but for a FOLDER with much in it
# A user id of -1 stands for this process's own user.
use strict;
use warnings;

require( __FILE__ =~ s{[^/]*$}{$_.pl}r ) for qw(mounts ranges starter);
our ( $machine, $call, $run_directory, $root, $nook, $owners, $ids_in_range );
our ( $MS_NOSUID, $MS_NODEV, $MNT_DETACH, $ELOOP, $EUSERS );

my ( $EPERM, $ESRCH ) = ( 1, 3 );
my ( $SIG_BLOCK, $SIGCHLD, $WNOHANG ) = ( 0, 17, 1 );
my $block = 512;    # the unit of ru_oublock
my $NEW_MOUNTS = 0x20000;
my $PR_SET_CHILD_SUBREAPER = 36;

# The runs, each with its process and open descriptors; and the run of each process id.
my ( %runs, %names );

# The mount namespace in which this process is: that of a run, or "-" for its own.
my ( $inside, $own_mounts ) = ('-');

# The file that lists the children of this process; and those that close what a run left, with its name.
my ( $children, %closing );
umask 022;

# Answers to requests that came together are sent together: every message wakes the runner.
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
    $owners = $name eq '-' ? undef : $runs{$name}{owners};
    return 1;
}

# Sets what the IDs of the user namespace of a process stand for. Returns the namespace.
sub map_ids {
    my ( $pid, %maps ) = @_;
    write_file( "/proc/$pid/$_", $maps{$_} ) or return for keys %maps;
    open my $space, '<', "/proc/$pid/ns/user" or return;
    return $space;
}

# How owners are translated in a run without a range: its own user namespace says it. Root stays root in it (ranges.pl).
sub one_owner {
    my ( $pid, $file, $to ) = @_;
    my $map   = "0 0 1\n$file $to 1\n";
    my $space = map_ids( $pid, uid_map => $map, gid_map => $map ) or return;
    return { files => $space, image => $space };
}

# In a run with a range the namespaces of the mounts are others, in which no process lives.
sub many_owners {
    my ( $file, $start, $uid, $gid ) = @_;
    # Root of the machine stays root: otherwise an overlay could not create its own files between its layers.
    my $translation = sub { my ($who) = @_; return "0 0 1\n" . extents( $file, $start, $who ) };
    my $image = map_alone( uid_map => $translation->(0), gid_map => $translation->(0) ) or return;
    return { files => $image, image => $image } if $uid == 0 && $gid == 0;
    my $files = map_alone( uid_map => $translation->($uid), gid_map => $translation->($gid) ) or return;
    return { files => $files, image => $image };
}

sub map_alone {
    my (%maps) = @_;
    pipe( my $told, my $tell ) && pipe( my $wait, my $go ) or return;
    my $pid = fork_users( $tell, $wait ) // return;
    close $tell;
    return map_ids( $pid, %maps ) if sysread $told, my $word, 1;
    $! = $EPERM;
    return;
}

# Pipes without a name, each made for one process. They belong to its user, because commands open /dev/stdout.
sub make_pipe {
    my ( $uid, $gid ) = @_;
    pipe my $reading, my $writing or return;
    return if $uid >= 0 && !chown $uid, $gid, $reading;
    return ( $reading, $writing );
}

# Opens the descriptors for the process of a run, and the other ends of its pipes.
sub open_descriptors {
    my ( $run, $uid, $gid, $descriptors ) = @_;
    my %own;
    for ( split /\x01/, $descriptors ) {
        my ( $number, $sign, $what ) = /^(\d+)([<>])(.*)$/s or die "not a descriptor: $_";
        if ( $what eq '=' ) {
            my ( $reading, $writing ) = make_pipe( $uid, $gid ) or return;
            ( $own{$number}, $run->{other_ends}{$number} ) = $sign eq '<' ? ( $reading, $writing ) : ( $writing, $reading );
        }
        else { open $own{$number}, '<', $what or return }
    }
    return \%own;
}

# Returns the words that follow "ok". After a failure the caller closes the run, so nothing is left.
sub open_run {
    my ( $name, $namespaces, $ids, $uid, $gid, $entrances, $descriptors, @command ) = @_;
    my $run = $runs{$name} = { other_ends => {} };
    enter('-') or return 0;
    my @entrances;
    for my $file ( split /\x01/, $entrances ) {
        open my $entrance, '>', $file or return 0;
        push @entrances, $entrance;
    }
    my ( $file, $to, $count, $nesting ) = $ids =~ /^(\d+):(\d+)(?:\+(\d+)(?:\+(nesting))?)?$/;
    my ($shared) = $ids =~ /^(\d+)$/;
    my $range;
    # Who becomes the process, out here, and who its command will be.
    my @as  = ( $uid, $gid );
    my @who = @as;
    if ( defined $count ) {
        $range = $run->{range} = take_range( $to, $count ) // return 0;
        @as  = ( $range, $range );
        @who = ( $range + $uid, $range + $gid );
    }
    elsif ( defined $shared ) {
        @as  = ( $shared + $uid, $shared + $gid );
        @who = ( $shared, $shared );
    }
    $run->{has_users} = defined( $range // $shared );
    my $own = open_descriptors( $run, @who, $descriptors ) or return 0;
    pipe( my $told, my $tell ) && pipe( my $wait, $run->{go} ) or return 0;
    my ( $with_network, $joined ) = $namespaces =~ /^mount(\+net)?(?:=(.*))?$/s;
    if ( defined $joined ) { open $run->{net}, '<', $joined or return 0 }
    syscall( $call->{unshare}, $NEW_MOUNTS ) == 0 or return 0;
    ( $inside, $owners ) = ($name);
    open $run->{mount}, '<', '/proc/self/ns/mnt' or return 0;
    $run->{pid} = fork_run(
        tell => $tell, wait => $wait, groups => \@entrances, own => $own, as => \@as, command => \@command,
        users   => $run->{has_users} ? $nesting // 'range' : $ids ? 'one' : '',
        network => $run->{net} // ( $with_network ? 'make' : '' ),
    ) // return 0;
    $names{ $run->{pid} } = $name;
    mount_at( 'run', $run_directory, 'tmpfs', $MS_NOSUID | $MS_NODEV, 'mode=0755,size=1m' ) && mkdir $nook or return 0;
    close $tell;
    if ( !sysread $told, my $word, 1 ) { $! = $EPERM; return 0 }
    if ( $with_network && !defined $joined ) { open $run->{net}, '<', "/proc/$run->{pid}/ns/net" or return 0 }
    if ( defined $range ) {
        my $map = "0 $range $ids_in_range\n";
        map_ids( $run->{pid}, uid_map => $map, gid_map => $map ) && ( $run->{owners} = many_owners( $file, $range, $uid, $gid ) ) or return 0;
    }
    elsif ( defined $shared ) {
        map_ids( $run->{pid}, uid_map => extents( 0, $shared, $uid ), gid_map => extents( 0, $shared, $gid ) ) or return 0;
        $run->{root} = \@as;
    }
    elsif ( defined $file ) { $run->{owners} = one_owner( $run->{pid}, $file, $to ) or return 0 }
    $owners = $run->{owners};
    my %kept = ( %{ $run->{other_ends} }, map { $run->{$_} ? ( $_ => $run->{$_} ) : () } qw(mount net) );
    return join ' ', $run->{pid}, ( map { "$_=" . fileno $kept{$_} } keys %kept ), "uid=$who[0]", "gid=$who[1]";
}

# The files through which the steps of a run tell the runner of variables and the summary: in memory, where nobody can put others in their
# place, and open here until the runner has opened them.
sub step_files {
    my ($run) = @_;
    my $folder = "$root/dev/shm/headrace";
    mkdir $folder or return 0;
    for my $name (qw(env secret-env summary)) {
        open my $file, '+>', "$folder/$name" or return 0;
        chmod 0666, $file or return 0;
        $run->{other_ends}{$name} = $file;
    }
    return join ' ', map { fileno $run->{other_ends}{$_} } qw(env secret-env summary);
}

sub is_open { my $run = $runs{ $_[0] }; return $run && $run->{mount} }

sub let_go {
    my ($name) = @_;
    my $run = $runs{$name} or return answer( $name, 'gone' );
    enter('-');
    $run->{over} = 1;
    return kill KILL => $run->{pid} if $run->{pid};    # the end of the process closes the run
    delete $runs{$name};
    give_back( $run->{range} ) if defined $run->{range};
    close_run( $name, $run );
}

# Closing a mount namespace for the last time waits until everything in it is unmounted, and removing directories may wait for
# the disk. So that other runs need not, another process does both: it is the last one that has the namespaces open.
sub close_run {
    my ( $name, $run ) = @_;
    my @handles = ( grep { $_ } @$run{qw(mount net)}, values %{ $run->{owners} // {} } );
    pipe my $wait, my $go or die "pipe: $!\n";
    my $pid = fork_with(
        [ $wait, @handles ],
        sub {
            sysread $wait, my $word, 1;
            close $_ for @handles;
            my $budget = 64;
            remove_small( $run->{folder}, \$budget ) if defined $run->{folder};
        }
    ) // die "fork: $!\n";
    $closing{$pid} = $name;
    close $_ for @handles;
}

# A child that was not forked here belonged to a bubblewrap that died early. It would wait for that for ever.
sub end_strangers {
    kill KILL => grep { !$names{$_} && !$closing{$_} } children();
}

sub children {
    my $all = '';
    sysseek $children, 0, 0;
    1 while sysread $children, $all, 4096, length $all;
    return split ' ', $all;
}

sub reap {
    my ( $status, $usage ) = ( pack( 'i', 0 ), "\0" x 144 );    # struct rusage
    while ( ( my $pid = syscall $call->{wait4}, -1, $status, $WNOHANG, $usage ) > 0 ) {
        if ( my $closed = delete $closing{$pid} ) { answer( $closed, 'gone' ); next }
        my $name = delete $names{$pid} // next;
        delete $runs{$name}{pid};
        my $how = unpack 'i', $status;
        answer( $name, "end $pid " . ( $how & 127 ? -1 : $how >> 8 ) . ' ' . $block * unpack 'x96 q', $usage );
        end_strangers();
        let_go($name) if $runs{$name}{over};
    }
}

my %for_run = (
    furnish   => sub {
        my ( $folder, @owner ) = @_;
        my $run = $runs{$inside};
        my $top = $run->{has_users} ? $run->{root} // \@owner : undef;
        $run->{folder} = $folder;
        return furnish( $folder, @owner, $top ) ? step_files($run) : 0;
    },
    directory => \&make_directory,
    adjust    => \&set_mode_and_time,
    renew     => sub { enter('-') && renew_directories(@_) },
    overlay   => sub { make_way( $_[0] ) && mount_at( 'overlay', $_[0], 'overlay', $MS_NOSUID | $MS_NODEV, $_[1] ) },
    bind      => \&bind_at,
    sys       => sub { show_sys( @_, $runs{$inside}{net} ) },
    traffic   => sub { traffic( $runs{$inside}{net} ) },
    image     => sub {
        my ( $image, $how ) = @_;
        my $run     = $inside;
        my $entries = look_through($image) or return 0;
        return show_image( $image, $entries, $entries ) if $how eq 'again';
        opendir( my $place, $root ) && enter('-') or return 0;
        my $stays = clear_root( $place, $entries ) or return 0;
        return enter($run) && show_image( $image, $entries, $stays );
    },
    start     => sub { syswrite $runs{$inside}{go}, '.' },
);

# Returns an error message, or nothing.
sub prepare {
    return "the system calls of $machine are not known here" if !$call;
    # Processes that bubblewrap has started become children of this process if bubblewrap dies early.
    syscall( $call->{prctl}, $PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0 );
    # Removes the mounts below /sys: every mount costs a run a little, because its namespace begins as a copy.
    syscall( $call->{umount2}, my $sys = '/sys', $MNT_DETACH );
    # /sys becomes the place for the roots: the runner's own files cannot be there.
    mount_at( 'runs', '/sys', 'tmpfs', $MS_NOSUID | $MS_NODEV, 'mode=0755,size=1m' ) && mkdir $run_directory or return "/sys: $!";
    chdir '/';
    open $own_mounts, '<', '/proc/self/ns/mnt' or return "namespaces: $!";
    open $children, '<', "/proc/$$/task/$$/children" or return "children: $!";
    return '';
}

my %words = ( $ELOOP => 'a link stands in its way', $EUSERS => 'every range of user IDs on this machine is in use' );

sub serve {
    my ( $name, $what, @fields ) = @_;
    return let_go($name) if $what eq 'close';
    if ( $what eq 'opened' ) { $runs{$name}{other_ends} = {} if $runs{$name}; return }
    my $done =
        $what eq 'base' ? enter('-') && make_base(@fields)
      : $what eq 'open' ? open_run( $name, @fields )
      : !is_open($name) ? do { $! = $ESRCH; 0 }
      :                   enter($name) && $for_run{$what}->(@fields);
    answer( $name, $done ? "ok $done" : 'no: ' . ( $words{ $! + 0 } // "$!" ) );
}

my $problem = prepare();
answer( '-', $problem eq '' ? "ok $$" : "no: $problem" );
send_answers();
exit 1 if $problem ne '';

# SIGCHLD is only handled while this process waits for requests, so nothing else is ever interrupted.
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

# Bubblewrap would end with this process, but a sandbox that it is just opening would not.
while ( my @children = children() ) {
    kill KILL => @children;
    waitpid $_, 0 for @children;
}
