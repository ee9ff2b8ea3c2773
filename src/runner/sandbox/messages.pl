# Messages between the mount helper and the processes beside it: fields with a NUL between them, and open descriptors.
# In Perl like them: Node cannot pass descriptors over a socket.
use strict;
use warnings;

our $call;
my ( $AF_UNIX, $SOCK_SEQPACKET, $SOL_SOCKET, $SCM_RIGHTS, $NO_SIGNAL ) = ( 1, 5, 1, 1, 0x4000 );
my ( $CLOSE_RECEIVED_ON_EXEC, $PR_SET_PDEATHSIG, $SIGKILL ) = ( 0x40000000, 1, 9 );
my ( $longest, $most_descriptors ) = ( 1 << 17, 250 );

# A message and its control data in the kernel's layout: pointers to a text and to a control message.
sub message_of { my ( $piece, $control ) = @_; return pack 'Q Q P Q P Q Q', 0, 0, $$piece, 1, $$control, length $$control, 0 }

# Forks a process that runs a function with its end of a socket, and that dies with this process. Returns its process id,
# and the other end.
sub open_process {
    my ($work) = @_;
    my $parent = $$;
    socketpair( my $here, my $there, $AF_UNIX, $SOCK_SEQPACKET, 0 ) && defined( my $pid = fork ) or return;
    return ( $pid, $here ) if $pid;
    close $here;
    syscall( $call->{prctl}, $PR_SET_PDEATHSIG, $SIGKILL, 0, 0, 0 );
    leave(0) if getppid() != $parent;
    open( STDIN, '<', '/dev/null' ) && $work->( fileno $there );    # the helper's own input belongs to the runner
    leave(1);
}

# Ends this process only: no clean-up code of the parent's copy may run.
sub leave { my ($status) = @_; syscall( $call->{exit_group}, $status + 0 ) }

sub send_message {
    my ( $to, $descriptors, @fields ) = @_;
    my $text    = join "\0", @fields;
    my $control = @$descriptors ? pack 'Q l l l* x!8', 16 + 4 * @$descriptors, $SOL_SOCKET, $SCM_RIGHTS, @$descriptors : '';
    my $piece   = pack 'P Q', $text, length $text;
    my $message = message_of( \$piece, \$control );
    return syscall( $call->{sendmsg}, fileno $to, $message, $NO_SIGNAL ) == length $text;
}

# Returns a function that waits for the next message. It returns the text and the descriptors, or nothing at the end.
sub receiver {
    my ($from) = @_;
    my ( $text, $control ) = ( "\0" x $longest, "\0" x ( 16 + 4 * $most_descriptors ) );
    my $piece = pack 'P Q', $text, $longest;
    return sub {
        my $message = message_of( \$piece, \$control );
        my $length = syscall( $call->{recvmsg}, $from, $message, $CLOSE_RECEIVED_ON_EXEC );
        return if $length <= 0;
        my $size  = ( unpack 'Q7', $message )[5];
        my $count = $size ? ( unpack( 'Q', $control ) - 16 ) / 4 : 0;
        return ( substr( $text, 0, $length ), unpack "x16 l$count", $control );
    };
}

1;
