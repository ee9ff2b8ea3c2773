# Replaces ssh: the connection is outside of the sandbox, and a socket leads to it, one for each command of the remote
# that may be run. What may be run there, and for which repository, is not said here.
#
# Arguments: the directory of the sockets, then those of ssh. The last is the remote command.
#
# It starts with every fetch, so it uses no modules: loading them takes longer than everything else. The numbers are the
# same on every machine that a runner supports.
#
# In Perl, because a sandbox shows the machine's programs, Perl among them, and need not have Node.
use strict;

my ( $AF_UNIX, $SOCK_STREAM, $SHUT_WR ) = ( 1, 1, 1 );
my ($directory) = @ARGV;
my ($service) = $ARGV[-1] =~ /^([a-z-]+) / or die "not a command of git\n";
socket my $remote, $AF_UNIX, $SOCK_STREAM, 0 or die "no socket: $!\n";
connect $remote, pack 'S a108', $AF_UNIX, "$directory/$service" or die "$service is not possible here: $!\n";

sub copy {
    my ( $source, $target ) = @_;
    while ( sysread $source, my $bytes, 65_536 ) {
        while ( length $bytes ) {
            my $written = syswrite $target, $bytes;
            exit 1 if !defined $written;
            substr $bytes, 0, $written, '';
        }
    }
    return;
}

defined( my $pid = fork ) or die "cannot fork: $!\n";
if ( !$pid ) {
    close STDOUT;
    copy( *STDIN, $remote );
    shutdown $remote, $SHUT_WR;
    exit 0;
}
close STDIN;
copy( $remote, *STDOUT );
