# Replaces ssh for git: the connection is outside of the sandbox, and two named pipes lead to it. ssh has already opened
# its ends. The ends here are opened without blocking, and then used with blocking.
#
# It starts with every fetch, so it uses no modules: loading them takes longer than everything else. The numbers are the
# same on every machine that a runner supports.
use strict;

my ( $O_RDONLY, $O_WRONLY, $O_NONBLOCK, $F_SETFL ) = ( 0, 1, 04000, 4 );
my ($pipes) = @ARGV;
sysopen my $from, "$pipes/from-ssh", $O_RDONLY | $O_NONBLOCK or die "the connection is gone: $!\n";
sysopen my $to,   "$pipes/to-ssh",   $O_WRONLY | $O_NONBLOCK or die "the connection is gone: $!\n";
fcntl $_, $F_SETFL, 0 for $from, $to;
open my $opened, '>&=', $ENV{HEADRACE_OPENED} or die "nobody waits for the connection: $!\n";
syswrite $opened, '.';
close $opened;

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
    close $_ for $from, *STDOUT;
    copy( *STDIN, $to );
    exit 0;
}
close $_ for $to, *STDIN;
copy( $from, *STDOUT );
