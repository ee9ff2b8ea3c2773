# Finds files by patterns in the directory where it is started, and writes them to standard output as one stream.
#
# It runs in a sandbox of its own, over what a build left, because the names and files may be made to deceive. It follows
# no link and opens nothing but regular files. The order is always the same for the same files, so that a stream that
# broke off can be continued: files that count as sent are skipped.
#
# Arguments: how many files to skip; the most files, bytes in all of them, and entries of directories to look at; then the
# patterns (match-globs.pl, with which it begins).
#
# The stream is made of frames: a letter, the length of a text (4 bytes), a number (8 bytes), the text.
#   F  a file: its size and path; its bytes follow, exactly as many as the size says
#   L  something that matches is left out: the text is the reason, a space and the path. Only some are told.
#   C  how many were left out for the reason
#   N  a glob that matched nothing: its number
#   S  the search was ended, because there are too many entries
#   D  the end: how many files there were, with those that were skipped
#
# In Perl, because a sandbox shows the machine's programs, Perl among them, and need not have Node.
use strict;
use Fcntl qw(O_RDONLY O_NOFOLLOW O_NONBLOCK O_NOCTTY);

my ( $skip, $most_files, $room, $entries, @patterns ) = @ARGV;
my ( $most_told, $deepest, $longest, $piece ) = ( 20, 100, 1024, 1 << 18 );
my ( $files, $told, $stopped, %left_out, %matched ) = ( 0, 0, 0 );

# Bytes that are no UTF-8; and characters that control: those of ASCII and Latin-1, line separators and the marks that
# turn the direction of text.
my $utf8    = qr/\A(?:[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*\z/;
my $control = qr/[\x00-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]/;

# A pipe of the usual size would have this process and its reader wait for each other at every 64 KB.
my $F_SETPIPE_SZ = 1031;
fcntl STDOUT, $F_SETPIPE_SZ, 1 << 20;

my $output = '';

sub flush_output {
    while ( $output ne '' ) {
        my $length = syswrite STDOUT, $output or exit 4;
        substr $output, 0, $length, '';
    }
}

sub put { $output .= $_[0]; flush_output() if length $output >= $piece }

sub frame { my ( $letter, $number, $text ) = @_; put( pack( 'a N Q>', $letter, length $text, $number ) . $text ) }

sub leave_out {
    my ( $reason, $path ) = @_;
    $left_out{$reason}++;
    frame( 'L', 0, $reason . ' ' . substr $path, 0, $longest ) if $told++ < $most_told;
}

sub send_file {
    my ($path) = @_;
    return leave_out( 'name', $path ) if $path !~ $utf8 || $path =~ $control;
    return leave_out( 'deep', $path ) if length $path > $longest;
    return leave_out( 'many', $path ) if $files >= $most_files;
    sysopen my $file, $path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY or return leave_out( 'unreadable', $path );
    return leave_out( 'special', $path ) if !-f $file;
    my $left = -s _;
    return leave_out( 'large', $path ) if $left > $room;
    $room -= $left;
    return if $files++ < $skip;
    frame( 'F', $left, $path );
    while ( $left > 0 ) {
        my $length = sysread $file, my $bytes, $left < $piece ? $left : $piece;
        exit 3 if !defined $length;
        $bytes = "\0" x ( $length = $left < $piece ? $left : $piece ) if $length == 0;    # it has become shorter
        put($bytes);
        $left -= $length;
    }
}

sub visit {
    my ( $path, $states, $depth ) = @_;
    my @ends = ends_in($states);
    lstat $path or return;
    if ( -d _ ) {
        return $depth < $deepest ? walk( "$path/", $states, $depth + 1 ) : leave_out( 'deep', $path );
    }
    return if !@ends;
    $matched{ $_->[0]{glob} } = 1 for @ends;
    return -l _ ? leave_out( 'link', $path ) : -f _ ? send_file($path) : leave_out( 'special', $path );
}

sub walk {
    my ( $folder, $states, $depth ) = @_;
    opendir my $handle, $folder or return leave_out( 'unreadable', $folder );
    my @found;
    while ( defined( my $name = readdir $handle ) ) {
        next if $name eq '.' || $name eq '..';
        if ( $entries-- <= 0 ) { $stopped = 1; last }
        push @found, $name if @{ advance( $states, $name ) };
    }
    closedir $handle;
    my $below = $folder eq './' ? '' : $folder;
    visit( "$below$_", advance( $states, $_ ), $depth ) for sort @found;
}

walk( './', first_states(@patterns), 0 );
my %globs = map { ( split m{/} )[0] => 1 } @patterns;
frame( 'C', $left_out{$_}, $_ ) for sort keys %left_out;
frame( 'N', $_, '' ) for grep { !$matched{$_} } sort { $a <=> $b } keys %globs;
frame( 'S', 0, '' ) if $stopped;
frame( 'D', $files, '' );
flush_output();
