# Holds the outer end of a sandbox's terminal, for terminal.ts: what a person types goes in, what programs write comes out.
#
# The terminal belongs to the sandbox's own instance of devpts, so that programs in it find their terminal under its name.
# Nothing here waits for one side alone: whoever writes without end can still be interrupted.
#
#   terminal.pl DIRECTORY UID GID
#
# DIRECTORY is /dev/pts of the sandbox, seen from here; the terminal belongs to that user (-1: to this one). The first line
# of the output is the terminal's number; after it come the bytes that programs write. The input is a list of messages, each
# a letter, its length (32 bits) and its content: "d" is what was typed, "w" the size of the window (rows and columns, 16
# bits each). It ends after the end of the input, as soon as everything that was written is shown. Nothing waits until no program
# has the terminal open any more: one may keep it past its own death.
#
# In Perl, because Node cannot open the outer end of a terminal or set its size.
use strict;
use warnings;

my ( $NUMBER, $UNLOCK, $SET_SIZE ) = ( 0x80045430, 0x40045431, 0x5414 );    # the same on every architecture that we run on
my ( $EAGAIN, $EINTR, $O_RDWR, $O_NOCTTY, $O_NONBLOCK ) = ( 11, 4, 2, 0400, 04000 );
my ( $piece, $most ) = ( 64 * 1024, 256 * 1024 );

my ( $directory, $uid, $gid ) = @ARGV;
chdir $directory or die "$directory: $!\n";
if ( $uid >= 0 && $> == 0 ) {
    # The group first: without root it could not be changed. The one who opens the terminal owns it.
    $) = "$gid $gid";
    $> = $uid;
    die "cannot become the user of the run\n" if $> != $uid;
}
sysopen my $terminal, 'ptmx', $O_RDWR | $O_NOCTTY | $O_NONBLOCK or die "ptmx: $!\n";
my $word = pack 'i', 0;
ioctl $terminal, $UNLOCK, $word or die "unlock: $!\n";
ioctl $terminal, $NUMBER, $word or die "number: $!\n";
my $number = unpack 'i', $word;
# While somebody has it open, a terminal does not hang up: not before the first program comes, nor between two of them.
sysopen my $inside, $number, $O_RDWR | $O_NOCTTY or die "$number: $!\n";
chdir '/';

# Messages that are not complete yet; what is to be typed; what is to be shown.
my ( $messages, $typed, $shown ) = ( '', '', "$number\n" );
my ( $is_last, $is_over ) = ( 0, 0 );

for my $handle ( *STDIN, *STDOUT ) {
    my $flags = fcntl $handle, 3, 0 or die "fcntl: $!\n";
    fcntl $handle, 4, $flags | $O_NONBLOCK or die "fcntl: $!\n";
}
$SIG{PIPE} = 'IGNORE';
binmode $_ for *STDIN, *STDOUT, $terminal;

until ( $is_over && $shown eq '' ) {
    my ( $readable, $writable ) = ( '', '' );
    vec( $readable, fileno STDIN,     1 ) = 1 if !$is_last && length $messages < $most && length $typed < $most;
    vec( $readable, fileno $terminal, 1 ) = 1 if !$is_over && length $shown < $piece;
    vec( $writable, fileno $terminal, 1 ) = 1 if !$is_over && $typed ne '';
    vec( $writable, fileno STDOUT,    1 ) = 1 if $shown ne '';
    my $found = select( $readable, $writable, undef, $is_last ? 0.05 : undef );
    next if $found < 0;
    $is_over = 1 if $found == 0 && $shown eq '';
    if ( vec $readable, fileno STDIN, 1 ) {
        my $length = sysread STDIN, $messages, $piece, length $messages;
        $is_last = 1 if defined $length ? $length == 0 : !again();
        obey();
    }
    if ( vec $readable, fileno $terminal, 1 ) {
        my $length = sysread $terminal, $shown, $piece, length $shown;
        $is_over = 1 if defined $length ? $length == 0 : !again();
    }
    if ( vec $writable, fileno $terminal, 1 ) {
        my $length = syswrite $terminal, $typed, $piece;
        if ( defined $length ) { substr $typed, 0, $length, '' }
        elsif ( !again() )     { $is_over = 1 }
    }
    if ( vec $writable, fileno STDOUT, 1 ) {
        my $length = syswrite STDOUT, $shown;
        if ( defined $length ) { substr $shown, 0, $length, '' }
        elsif ( !again() )     { last }
    }
}

sub again { return $! == $EAGAIN || $! == $EINTR }

sub obey {
    while ( length $messages >= 5 ) {
        my ( $letter, $length ) = unpack 'a N', $messages;
        die "a message is too long\n" if $length > $most;
        last if length $messages < 5 + $length;
        my $content = substr $messages, 5, $length;
        substr $messages, 0, 5 + $length, '';
        if ( $letter eq 'd' ) { $typed .= $content }
        elsif ( $letter eq 'w' ) {
            my $size = pack 'S4', unpack( 'n n', $content ), 0, 0;
            ioctl $terminal, $SET_SIZE, $size;
        }
    }
}
