# Forks the processes of runs, for mount-helper.pl.
#
# A fork makes both sides copy every page that they write to afterwards, and the helper goes on to write to many. So it has
# this small process do it, which writes to few, and nothing but system calls lies between a fork and its program. The
# forked processes are the helper's children all the same: it hears of their end, and they die with it. Another gain is that
# they begin with what their own run has open, and nothing of any other.
#
# A request is one message: fields with a NUL between them (user, group, 1 for a user namespace of its own or 0, 1 for a
# network namespace or 0, how many control groups to enter, the numbers under which the program is to have descriptors open,
# program, arguments), and beside it descriptors: a pipe to tell the process id through, a pipe to wait on for a word to
# begin, the namespaces of mounts and network, the control groups, and those for the program.
use strict;
use warnings;

our ( $call, $CLOSE_ON_EXEC );
my ( $CLONE_PARENT, $NEW_USERS ) = ( 0x8000, 0x10000000 );
my ( $PR_SET_PDEATHSIG, $SIGKILL, $JOIN_SESSION_KEYRING, $ENOSYS ) = ( 1, 9, 1, 38 );
my $out_of_the_way = 200;
my ( $helper, $starter );

# Answers its process id.
sub open_starter {
    $helper = $$;
    ( my $pid, $starter ) = open_process(
        sub {
            # What the runner hears is the helper's.
            open( STDOUT, '>', '/dev/null' ) && await_requests(@_);
        }
    );
    return $pid;
}

# Asks for a process; whoever reads the pipe that is handed on first hears its id, or nothing if there is none.
sub ask_for_process { return send_message( $starter, @_ ) }

sub await_requests {
    my ($from) = @_;
    my $next        = receiver($from);
    my @environment = map { "$_=$ENV{$_}" } keys %ENV;
    my $environment = pack 'p*', @environment, undef;
    my ( $command, $program, $arguments, @words ) = ('');
    while ( my ( $text, @descriptors ) = $next->() ) {
        my ( $uid, $gid, $own_users, $own_network, $groups, $numbers, $wanted ) = split /\0/, $text, 7;
        if ( $wanted ne $command ) {    # it is nearly always the same
            @words     = split /\0/, $command = $wanted, -1;
            $arguments = pack 'p*', @words, undef;
            $program   = ( grep { -x } map { "$_/$words[0]" } split /:/, $ENV{PATH} )[0] // $words[0];
        }
        if ( syscall( $call->{clone}, $CLONE_PARENT, 0, 0, 0, 0 ) == 0 ) {
            my ( $tell, $wait, @rest ) = @descriptors;
            my @namespaces = splice @rest, 0, 1 + $own_network;
            my @entrances  = splice @rest, 0, $groups;
            my %own;
            @own{ split / /, $numbers } = @rest;
            my $errors = $own{2} // 2;
            for (@namespaces) { syscall( $call->{setns}, $_, 0 ) == 0 or give_up( $errors, 'cannot enter a namespace' ) }
            settle( $tell, $errors, $uid, $gid, $own_users );
            for (@entrances) { write_to( $_, '0' ) or give_up( $errors, 'cannot enter a control group' ) }
            my $word = ' ';
            leave(0) if syscall( $call->{read}, $wait, $word, 1 ) != 1;    # let go of before it began
            # First out of the way, then each to its place: one may lie where another belongs.
            for ( keys %own ) { syscall( $call->{dup3}, $own{$_}, $out_of_the_way + $_, $CLOSE_ON_EXEC ) }
            for ( keys %own ) { syscall( $call->{dup3}, $out_of_the_way + $_, $_ + 0, 0 ) }
            syscall( $call->{execve}, $program, $arguments, $environment );
            give_up( 2, $program );
        }
        syscall( $call->{close}, $_ ) for @descriptors;
    }
}

# Makes the process that of a run, and tells of it.
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
    # A session keyring of its own, without a name: what the runner's session holds is nobody else's.
    syscall( $call->{keyctl}, $JOIN_SESSION_KEYRING, 0 ) >= 0
      or $! == $ENOSYS
      or give_up( $errors, 'cannot make a session keyring' );
    # By that user: what the kernel counts by user, it counts for the maker of a namespace too.
    if ($own_users) { syscall( $call->{unshare}, $NEW_USERS ) == 0 or give_up( $errors, 'cannot make a user namespace' ) }
    # Bubblewrap asks for the same, but only once it is up.
    syscall( $call->{prctl}, $PR_SET_PDEATHSIG, $SIGKILL, 0, 0, 0 );
    leave(0) if syscall( $call->{getppid} ) != $helper;
    write_to( $tell, pack 'L', $$ );
}

sub write_to { my ( $descriptor, $text ) = @_; return syscall( $call->{write}, $descriptor, $text, length $text ) == length $text }

sub give_up { my ( $errors, $what ) = @_; write_to( $errors, "$what: $!\n" ); leave(125) }

1;
