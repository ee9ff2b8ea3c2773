# Runs programs in a sandbox one after the other, on request of the runner. session.ts is the other side.
#
# Argument: the runner's socket. A request comes from it: the length of a head (32 bits), then the head: fields separated
# by NUL. The fields are the most bytes of standard output, the number of bytes of standard input after the head, the
# program and its arguments. A head of one field is the status to exit with.
#
# Output goes to the standard output in frames: a letter, a length (32 bits), and that many bytes.
#   o  standard output   e  standard error
#   x  the program has ended: its status, and 1 if its output was more than wanted, else 0
# The output of a program that writes more than allowed is closed. Standard error has no limit: it is passed on at the
# pace of its reader.
#
# It starts with every session, so it uses no modules, whose loading takes longer than everything else. The numbers are
# the same on every machine that a runner supports.
#
# In Perl, because a sandbox shows the machine's programs, Perl among them, and need not have Node.
use strict;

my ( $AF_UNIX, $SOCK_STREAM ) = ( 1, 1 );
my ($socket) = @ARGV;
socket my $requests, $AF_UNIX, $SOCK_STREAM, 0 or exit 70;
connect $requests, pack 'S a108', $AF_UNIX, $socket or exit 70;
$SIG{PIPE} = 'IGNORE';

sub frame {
    my ( $letter, $bytes ) = @_;
    my $rest = pack( 'a N', $letter, length $bytes ) . $bytes;
    while ( length $rest ) {
        my $written = syswrite STDOUT, $rest;
        exit 70 if !defined $written;
        substr $rest, 0, $written, '';
    }
    return;
}

# The end of the input means that the runner has ended.
sub take {
    my ($size) = @_;
    my $bytes = '';
    while ( length $bytes < $size ) { sysread( $requests, $bytes, $size - length $bytes, length $bytes ) or exit 70 }
    return $bytes;
}

sub run {
    my ( $most, $input, @command ) = @_;
    pipe my $in,     my $in_end;
    pipe my $output, my $output_end;
    pipe my $errors, my $errors_end;
    defined( my $pid = fork ) or exit 71;
    if ( !$pid ) {
        open STDIN,  '<&', $in;
        open STDOUT, '>&', $output_end;
        open STDERR, '>&', $errors_end;
        $SIG{PIPE} = 'DEFAULT';
        exec { $command[0] } @command or print STDERR "$command[0]: $!\n";
        exit 127;
    }
    close $_ for $in, $output_end, $errors_end;
    syswrite $in_end, $input if length $input;    # fits into an empty pipe
    close $in_end;

    my %watched = map { fileno $_ => $_ } $requests, $output, $errors;
    my %letters = ( fileno $output => 'o', fileno $errors => 'e' );
    my ( $open, $cut ) = ( 2, 0 );
    while ( $open > 0 ) {
        my $ready = '';
        vec( $ready, $_, 1 ) = 1 for keys %watched;
        next if select( $ready, undef, undef, undef ) < 1;
        for my $number ( grep { vec $ready, $_, 1 } keys %watched ) {
            my $letter = $letters{$number};
            if ( !defined $letter ) { kill KILL => $pid; exit 70 }    # the runner has ended: no request comes now
            my $size  = sysread $watched{$number}, my $bytes, 65_536;
            my $isend = !$size;
            if ( $letter eq 'o' && $size && $size > $most ) { ( $isend, $cut, $bytes ) = ( 1, 1, substr $bytes, 0, $most ) }
            if ( $letter eq 'o' && $size ) { $most -= length $bytes }
            frame( $letter, $bytes ) if $size;
            next if !$isend;
            close delete $watched{$number};
            $open--;
        }
    }
    waitpid $pid, 0;
    frame( 'x', ( $? & 127 ? 128 + ( $? & 127 ) : $? >> 8 ) . " $cut" );
    return;
}

for ( ;; ) {
    my ( $most, $size, @command ) = split /\0/, take( unpack 'N', take(4) ), -1;
    exit $most if !@command;
    run( $most, take($size), @command );
}
