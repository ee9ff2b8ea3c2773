# The door of a run: an address and a port in its network that lead to one place outside, and nowhere else. Connections
# are joined to a Unix socket, behind which the runner connects to that place (door.ts).
#
# Arguments: address, port, socket. This program runs in the run's network, but outside its sandbox, so a run cannot
# change it. It therefore limits what it takes: connections, and bytes that wait for a slow reader. It ends when its
# standard input does.
use strict;
use warnings;
use Errno qw(EAGAIN EINTR EINPROGRESS EWOULDBLOCK);
use Socket;

my ( $address, $port, $outside ) = @ARGV;
my ( $most, $room ) = ( 64, 1 << 17 );

# An address that is not of loopback becomes one of the run's own.
sub own {
    my ($where) = @_;
    my $name = 'lo:1';
    socket my $control, PF_INET, SOCK_DGRAM, 0 or die "socket: $!\n";
    for ( [ 0x8916, $where ], [ 0x891c, '255.255.255.255' ] ) {    # SIOCSIFADDR, SIOCSIFNETMASK
        my ( $request, $value ) = @$_;
        my $ifreq = pack 'a16 a16 x8', $name, pack_sockaddr_in( 0, inet_aton($value) );
        ioctl( $control, $request, $ifreq ) or die "$where: $!\n";
    }
    return;
}

own($address) if $address !~ /^127[.]/;
socket my $listener, PF_INET, SOCK_STREAM, 0 or die "socket: $!\n";
setsockopt $listener, SOL_SOCKET, SO_REUSEADDR, 1;
bind( $listener, pack_sockaddr_in( $port, inet_aton($address) ) ) && listen( $listener, $most ) or die "$address:$port: $!\n";
$listener->blocking(0);
$SIG{PIPE} = 'IGNORE';
syswrite STDOUT, "ready\n";

my %end;    # by descriptor: handle, descriptor of the peer, bytes to write to it, whether it is read to its end, whether it was shut

sub close_both {
    my ($fd) = @_;
    for my $one ( $fd, $end{$fd}{peer} ) { close $end{$one}{handle}; delete $end{$one} }
    return;
}

sub join_client {
    accept my $client, $listener or return;
    socket my $remote, PF_UNIX, SOCK_STREAM, 0 or return;
    connect $remote, pack_sockaddr_un($outside) or return;
    $_->blocking(0) for $client, $remote;
    my ( $from, $to ) = ( fileno $client, fileno $remote );
    $end{$from} = { handle => $client, peer => $to,   waiting => '', ended => 0, shut => 0 };
    $end{$to}   = { handle => $remote, peer => $from, waiting => '', ended => 0, shut => 0 };
    return;
}

sub is_later { return $!{EAGAIN} || $!{EWOULDBLOCK} || $!{EINTR} }

# Passes the end of one direction on when everything before it was written.
sub pass_end {
    my ($fd) = @_;
    my ( $own, $peer ) = ( $end{$fd}, $end{ $end{$fd}{peer} } );
    if ( $peer->{ended} && $own->{waiting} eq '' && !$own->{shut} ) { shutdown $own->{handle}, 1; $own->{shut} = 1 }
    close_both($fd) if $own->{shut} && $peer->{shut};
    return;
}

while (1) {
    my ( $reading, $writing ) = ( '', '' );
    vec( $reading, fileno STDIN,     1 ) = 1;
    vec( $reading, fileno $listener, 1 ) = 1 if keys(%end) < 2 * $most;
    for my $fd ( keys %end ) {
        my $one = $end{$fd};
        vec( $reading, $fd, 1 ) = 1 if !$one->{ended} && length $end{ $one->{peer} }{waiting} < $room;
        vec( $writing, $fd, 1 ) = 1 if $one->{waiting} ne '';
    }
    select( $reading, $writing, undef, undef ) >= 0 or next;
    if ( vec $reading, fileno STDIN, 1 ) { sysread( STDIN, my $ignored, 1 ) or exit }
    for my $fd ( keys %end ) {
        my $one = $end{$fd} or next;
        if ( vec $writing, $fd, 1 ) {
            my $written = syswrite $one->{handle}, $one->{waiting};
            if ( !defined $written ) { is_later() or close_both($fd); next }
            substr $one->{waiting}, 0, $written, '';
        }
        if ( vec $reading, $fd, 1 ) {
            my $to = $end{ $one->{peer} };
            my $read = sysread $one->{handle}, $to->{waiting}, 1 << 16, length $to->{waiting};
            if ( !defined $read ) { is_later() or close_both($fd); next }
            $one->{ended} = 1 if $read == 0;
        }
        pass_end($fd);
        pass_end( $end{$fd}{peer} ) if $end{$fd};
    }
    join_client() if vec $reading, fileno $listener, 1;
}
