# Runs a program in a sandbox without a network, and joins its connections to the runner's proxy (filtering-proxy.ts), which
# listens on a Unix socket.
#
# Arguments: the socket; an address and port of loopback, or two empty texts; the program and its arguments.
#
# The program finds the proxy by the usual variables. Programs written in Go call addresses of loopback themselves,
# without a proxy. So where a registry has one, this listens there, in the sandbox's own loopback, and asks the proxy for
# the real one.
#
# In Perl, because a sandbox shows the machine's programs, Perl among them, and need not have Node.
use strict;
use warnings;
use Socket;

my ( $proxy, $address, $port, @program ) = @ARGV;

sub listen_on {
    my ( $where, $number ) = @_;
    socket my $listener, PF_INET, SOCK_STREAM, 0 or die "socket: $!\n";
    bind( $listener, pack_sockaddr_in( $number, inet_aton($where) ) ) && listen( $listener, 64 ) or die "$where:$number: $!\n";
    return $listener;
}

sub copy {
    my ( $from, $to ) = @_;
    while ( sysread $from, my $bytes, 1 << 16 ) {
        for ( my $sent = 0 ; $sent < length $bytes ; ) { $sent += syswrite( $to, $bytes, length($bytes) - $sent, $sent ) // exit }
    }
    shutdown $to, 1;
    exit;
}

# The first line of the answer tells whether the proxy has a connection; a blank line ends the answer.
sub ask_proxy {
    my ( $to, $for ) = @_;
    syswrite $to, "CONNECT $for HTTP/1.1\r\nHost: $for\r\n\r\n";
    my $answer = '';
    while ( $answer !~ /\r\n\r\n$/ ) { sysread $to, $answer, 1, length $answer or exit }
    exit if $answer !~ m{^HTTP/1\.1 200 };
}

sub join_to_proxy {
    my ( $client, $for ) = @_;
    socket my $remote, PF_UNIX, SOCK_STREAM, 0 or exit;
    connect $remote, pack_sockaddr_un($proxy) or exit;
    ask_proxy( $remote, $for ) if $for ne '';
    my $other = fork // exit;
    copy( $other ? ( $client, $remote ) : ( $remote, $client ) );
}

sub serve {
    my ( $listener, $for ) = @_;
    my $server = fork // die "fork: $!\n";
    return if $server;
    $SIG{CHLD} = 'IGNORE';
    while ( accept my $client, $listener ) { fork // next or join_to_proxy( $client, $for ) }
    exit;
}

my $general = listen_on( '127.0.0.1', 0 );
my ($own) = unpack_sockaddr_in( getsockname $general );
$ENV{$_} = "http://127.0.0.1:$own" for qw(http_proxy HTTP_PROXY HTTPS_PROXY);
serve( $general, '' );
serve( listen_on( $address eq 'localhost' ? '127.0.0.1' : $address, $port ), "$address:$port" ) if $address ne '';
exec {$program[0]} @program or die "$program[0]: $!\n";
