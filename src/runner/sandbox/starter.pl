# Forks the processes of runs, for mount-helper.pl. In Perl because Node cannot fork.
#
# After a fork both sides copy every page that they write to, and the helper writes to many. So this small process does
# the forking: it writes to few pages, and only system calls lie between a fork and its program. The forked processes
# are still the helper's children: it is told of their end, and they die with it. They also begin with the descriptors
# of their own run only.
#
# A request is one message: fields with a NUL between them (user, group, "one" or "range" for a new user namespace with so many
# IDs or nothing, or "nesting" for a range in which others can be made, what to do about a network namespace: "make", "join" or nothing, the number of control groups to enter, the numbers of the program's
# descriptors, program, arguments). Descriptors come with it: a pipe for the process id, a pipe on which the process waits before
# it begins, the namespace of mounts and that of a network to join, the control groups, and the descriptors for the program.
#
# Or it is "users", and has the two pipes only: for a process in a new user namespace, which ends when the second one is closed.
use strict;
use warnings;

our ( $call, $CLOSE_ON_EXEC );
my ( $CLONE_PARENT, $NEW_USERS, $NEW_NETWORK, $NEW_GROUPS ) = ( 0x8000, 0x10000000, 0x40000000, 0x2000000 );
my ( $AF_INET, $SOCK_DGRAM, $SIOCSIFFLAGS, $IFF_UP ) = ( 2, 2, 0x8914, 1 );
my ( $PR_SET_PDEATHSIG, $SIGKILL, $JOIN_SESSION_KEYRING, $ENOSYS ) = ( 1, 9, 1, 38 );
my $out_of_the_way = 200;
my ( $helper, $starter );

# Returns its process id.
sub open_starter {
    $helper = $$;
    ( my $pid, $starter ) = open_process(
        sub {
            # The helper's own output belongs to the runner.
            open( STDOUT, '>', '/dev/null' ) && await_requests(@_);
        }
    );
    return $pid;
}

# Asks for a process. The reader of the given pipe gets its id, or end-of-file if there is none.
sub ask_for_process { return send_message( $starter, @_ ) }

# The same for a process that only has a user namespace of its own.
sub ask_for_users { return send_message( $starter, \@_, 'users' ) }

sub await_requests {
    my ($from) = @_;
    my $next        = receiver($from);
    my @environment = map { "$_=$ENV{$_}" } keys %ENV;
    my $environment = pack 'p*', @environment, undef;
    my ( $command, $program, $arguments, @words ) = ('');
    while ( my ( $text, @descriptors ) = $next->() ) {
        if ( $text eq 'users' ) { hold_users(@descriptors); next }
        my ( $uid, $gid, $own_users, $network, $groups, $numbers, $wanted ) = split /\0/, $text, 7;
        if ( $wanted ne $command ) {    # it is nearly always the same
            @words     = split /\0/, $command = $wanted, -1;
            $arguments = pack 'p*', @words, undef;
            $program   = ( grep { -x } map { "$_/$words[0]" } split /:/, $ENV{PATH} )[0] // $words[0];
        }
        if ( syscall( $call->{clone}, $CLONE_PARENT, 0, 0, 0, 0 ) == 0 ) {
            my ( $tell, $wait, @rest ) = @descriptors;
            my @namespaces = splice @rest, 0, $network eq 'join' ? 2 : 1;
            my @entrances  = splice @rest, 0, $groups;
            my %own;
            @own{ split / /, $numbers } = @rest;
            my $errors = $own{2} // 2;
            for (@namespaces) { syscall( $call->{setns}, $_, 0 ) == 0 or give_up( $errors, 'cannot enter a namespace' ) }
            $network ne 'make' || make_network() or give_up( $errors, 'cannot make a network' );
            settle( $tell, $errors, $uid, $gid, $own_users );
            for (@entrances) { write_to( $_, '0' ) or give_up( $errors, 'cannot enter a control group' ) }
            my $word = ' ';
            leave(0) if syscall( $call->{read}, $wait, $word, 1 ) != 1;    # closed before it began
            forbid_namespaces($own_users) or give_up( $errors, 'cannot forbid namespaces' );
            # Descriptors are first moved out of the way and then to their places: one may have the number that another
            # needs.
            for ( keys %own ) { syscall( $call->{dup3}, $own{$_}, $out_of_the_way + $_, $CLOSE_ON_EXEC ) }
            for ( keys %own ) { syscall( $call->{dup3}, $out_of_the_way + $_, $_ + 0, 0 ) }
            syscall( $call->{execve}, $program, $arguments, $environment );
            give_up( 2, $program );
        }
        syscall( $call->{close}, $_ ) for @descriptors;
    }
}

# Root in its own namespace could otherwise make others, in which it would have every capability again. A run that builds images
# has to. Then it has none over a network or a control group: its own were made outside of them, or here, and there will be no
# others. The kernel counts by user, so a limit of 1 would allow as many as the run has users.
sub forbid_namespaces {
    my ($own_users) = @_;
    return 1 if $own_users eq '' || $own_users eq 'one';
    return limit_of( user => 0 ) if $own_users eq 'range';
    return
         syscall( $call->{unshare}, $NEW_GROUPS ) == 0
      && limit_of( cgroup => 0 )
      && limit_of( net    => 0 )
      && limit_of( time   => 0 )
      && limit_of( user   => 100 );
}

sub limit_of { my ( $kind, $most ) = @_; return write_file( "/proc/sys/user/max_${kind}_namespaces", $most ) }

sub hold_users {
    my ( $tell, $wait ) = @_;
    if ( syscall( $call->{clone}, $CLONE_PARENT | $NEW_USERS, 0, 0, 0, 0 ) == 0 ) {
        my $word = ' ';
        write_to( $tell, pack 'L', $$ );
        syscall( $call->{read}, $wait, $word, 1 );
        leave(0);
    }
    syscall( $call->{close}, $_ ) for $tell, $wait;
}

# The network belongs to no user namespace of a run, so no capability of a run counts there: all its ports are free instead,
# unless the machine is a container whose /proc/sys is read-only.
sub make_network {
    my $loopback = pack 'a16 s x22', 'lo', $IFF_UP;
    syscall( $call->{unshare}, $NEW_NETWORK ) == 0 && socket my $any, $AF_INET, $SOCK_DGRAM, 0 or return 0;
    write_file( '/proc/sys/net/ipv4/ip_unprivileged_port_start', '0' );
    return ioctl $any, $SIOCSIFFLAGS, $loopback;
}

# Enters the run's namespaces and groups, and reports the process id.
sub settle {
    my ( $tell, $errors, $uid, $gid, $own_users ) = @_;
    if ( $uid >= 0 ) {
        my $groups = pack 'L', $gid;
        syscall( $call->{setgroups}, 1, $groups ) == 0
          && syscall( $call->{setgid}, $gid + 0 ) == 0
          && syscall( $call->{setuid}, $uid + 0 ) == 0
          or give_up( $errors, "cannot become $uid" );
        syscall( $call->{geteuid} ) == $uid && syscall( $call->{getegid} ) == $gid or give_up( $errors, 'still root' );
    }
    # A new session keyring without a name: the keys of the runner's session stay with the runner.
    syscall( $call->{keyctl}, $JOIN_SESSION_KEYRING, 0 ) >= 0
      or $! == $ENOSYS
      or give_up( $errors, 'cannot make a session keyring' );
    # As that user: the kernel counts resources by user, and also counts the maker of a namespace.
    if ($own_users) { syscall( $call->{unshare}, $NEW_USERS ) == 0 or give_up( $errors, 'cannot make a user namespace' ) }
    # Bubblewrap asks for the same, but only after its start.
    syscall( $call->{prctl}, $PR_SET_PDEATHSIG, $SIGKILL, 0, 0, 0 );
    leave(0) if syscall( $call->{getppid} ) != $helper;
    write_to( $tell, pack 'L', $$ );
}

sub write_to { my ( $descriptor, $text ) = @_; return syscall( $call->{write}, $descriptor, $text, length $text ) == length $text }

sub give_up { my ( $errors, $what ) = @_; write_to( $errors, "$what: $!\n" ); leave(125) }

1;
