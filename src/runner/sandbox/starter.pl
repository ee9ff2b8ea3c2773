# The processes that mount-helper.pl forks, and what the one of a run does until it becomes its program. In Perl because Node
# cannot fork.
use strict;
use warnings;

our $call;
my ( $NEW_USERS, $NEW_NETWORK, $NEW_GROUPS ) = ( 0x10000000, 0x40000000, 0x2000000 );
my ( $AF_INET, $SOCK_DGRAM, $SIOCSIFFLAGS, $IFF_UP ) = ( 2, 2, 0x8914, 1 );
my ( $PR_SET_PDEATHSIG, $SIGKILL, $JOIN_SESSION_KEYRING, $ENOSYS, $SIG_SETMASK ) = ( 1, 9, 1, 38, 2 );
my ( $DUPLICATE, $out_of_the_way ) = ( 1030, 200 );    # to a free number from there on, closed by a program

# Forks a process for a function. It begins with these handles only, and standard error: what is open here belongs to other
# runs, and to the runner. Returns its process id.
sub fork_with {
    my ( $handles, $work ) = @_;
    my $pid = fork;
    return $pid if !defined $pid || $pid;
    my %kept = map { $_ => 1 } 0 .. 2, map { fileno $_ } @$handles;
    open( STDIN, '<', '/dev/null' ) && open( STDOUT, '>', '/dev/null' ) && opendir( my $all, '/proc/self/fd' ) or leave(125);
    my @others = grep { /^\d/ && !$kept{$_} } readdir $all;
    syscall( $call->{close}, $_ + 0 ) for @others;
    $SIG{$_} = 'DEFAULT' for qw(CHLD PIPE);
    hold_back( $SIG_SETMASK, 0 );
    $work->();
    leave(0);
}

# The bytes that came in and went out, over all interfaces but the loopback. In a process of its own, because an ordinary user
# cannot come back from another network.
sub traffic {
    my ($network) = @_;
    pipe( my $told, my $tell ) or return 0;
    my $counts = fork_with(
        [ $network, $tell ],
        sub {
            syscall( $call->{setns}, fileno $network, $NEW_NETWORK ) == 0 && open my $list, '<', '/proc/self/net/dev' or leave(1);
            my ( $received, $sent ) = ( 0, 0 );
            while (<$list>) {
                my ( $name, @figures ) = /[^\s:]+/g;
                next if !defined $figures[8] || $name eq 'lo' || $figures[0] =~ /\D/;
                $received += $figures[0];
                $sent     += $figures[8];
            }
            syswrite $tell, "$received $sent";
        }
    );
    close $tell;
    my $words = '';
    sysread $told, $words, 100 if defined $counts;
    return $words eq '' ? 0 : $words;
}

# Ends this process only: no clean-up code of the parent's copy may run.
sub leave { my ($status) = @_; syscall( $call->{exit_group}, $status + 0 ) }

sub hold_back {
    my ( $how, $signals ) = @_;
    my $set = pack 'Q', $signals;
    syscall( $call->{rt_sigprocmask}, $how, $set, 0, 8 );
}

# Forks the process of a run in the namespace of mounts that this process is in. What it is given: who it becomes ("as", a user
# and a group); "users", for a new user namespace: "one" or "range" for so many IDs, or "nesting" for a range in which others
# can be made; a "network" to join, or "make"; the control groups to enter; its descriptors by number; and its program with
# arguments. It writes to "tell" when it is there, and begins when it can read from "wait". Returns its process id.
sub fork_run {
    my (%run) = @_;
    my ( $tell, $wait, $network, $groups, $own ) = @run{qw(tell wait network groups own)};
    my $helper = $$;
    my $errors = $own->{2} // *STDERR;
    my $joined = ref $network ? $network : undef;
    return fork_with(
        [ $tell, $wait, $joined // (), @$groups, values %$own ],
        sub {
            !$joined || syscall( $call->{setns}, fileno $joined, $NEW_NETWORK ) == 0 or give_up( $errors, 'cannot enter a network' );
            $network ne 'make' || make_network() or give_up( $errors, 'cannot make a network' );
            settle( $errors, $helper, $run{users}, @{ $run{as} } );
            syswrite $tell, '.';
            for (@$groups) { syswrite $_, '0' or give_up( $errors, 'cannot enter a control group' ) }
            leave(0) if !sysread $wait, my $word, 1;    # closed before it began
            forbid_namespaces( $run{users} ) or give_up( $errors, 'cannot forbid namespaces' );
            # Descriptors are first moved out of the way and then to their places: one may have the number that another needs.
            my %moved = map { $_ => fcntl $own->{$_}, $DUPLICATE, $out_of_the_way } keys %$own;
            for ( keys %moved ) { syscall( $call->{dup3}, $moved{$_}, $_ + 0, 0 ) }
            my @command = @{ $run{command} };
            no warnings 'exec';
            exec { $command[0] } @command;
            give_up( *STDERR, $command[0] );
        }
    );
}

# Forks a process that only has a user namespace of its own, until "wait" is closed.
sub fork_users {
    my ( $tell, $wait ) = @_;
    return fork_with(
        [ $tell, $wait ],
        sub { syscall( $call->{unshare}, $NEW_USERS ) == 0 && syswrite( $tell, '.' ) && sysread $wait, my $word, 1 }
    );
}

# Root in its own namespace could otherwise make others, in which it would have every capability again. A run that builds images
# has to. Then it has none over a network or a control group: its own were made outside of them, or here, and there will be no
# others. The kernel counts by user, so a limit of 1 would allow as many as the run has users.
sub forbid_namespaces {
    my ($users) = @_;
    return 1 if $users eq '' || $users eq 'one';
    return limit_of( user => 0 ) if $users eq 'range';
    return
         syscall( $call->{unshare}, $NEW_GROUPS ) == 0
      && limit_of( cgroup => 0 )
      && limit_of( net    => 0 )
      && limit_of( time   => 0 )
      && limit_of( user   => 100 );
}

sub limit_of { my ( $kind, $most ) = @_; return write_file( "/proc/sys/user/max_${kind}_namespaces", $most ) }

# The network belongs to no user namespace of a run, so no capability of a run counts there: all its ports are free instead,
# unless the machine is a container whose /proc/sys is read-only.
sub make_network {
    my $loopback = pack 'a16 s x22', 'lo', $IFF_UP;
    syscall( $call->{unshare}, $NEW_NETWORK ) == 0 && socket my $any, $AF_INET, $SOCK_DGRAM, 0 or return 0;
    write_file( '/proc/sys/net/ipv4/ip_unprivileged_port_start', '0' );
    return ioctl $any, $SIOCSIFFLAGS, $loopback;
}

# Becomes the user of the run, in a user namespace of its own if it has one.
sub settle {
    my ( $errors, $helper, $users, $uid, $gid ) = @_;
    if ( $uid >= 0 ) {
        my $groups = pack 'L', $gid;
        syscall( $call->{setgroups}, 1, $groups ) == 0
          && syscall( $call->{setgid}, $gid + 0 ) == 0
          && syscall( $call->{setuid}, $uid + 0 ) == 0
          or give_up( $errors, "cannot become $uid" );
        $> == $uid && $) == $gid or give_up( $errors, 'still root' );
    }
    # A new session keyring without a name: the keys of the runner's session stay with the runner.
    syscall( $call->{keyctl}, $JOIN_SESSION_KEYRING, 0 ) >= 0
      or $! == $ENOSYS
      or give_up( $errors, 'cannot make a session keyring' );
    # As that user: the kernel counts resources by user, and also counts the maker of a namespace.
    if ($users) { syscall( $call->{unshare}, $NEW_USERS ) == 0 or give_up( $errors, 'cannot make a user namespace' ) }
    # Bubblewrap asks for the same, but only after its start.
    syscall( $call->{prctl}, $PR_SET_PDEATHSIG, $SIGKILL, 0, 0, 0 );
    leave(0) if getppid() != $helper;
}

sub give_up { my ( $errors, $what ) = @_; syswrite $errors, "$what: $!\n"; leave(125) }

1;
