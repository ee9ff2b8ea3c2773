# Prints an image's /etc/passwd and /etc/group, each followed by a NUL. It runs in a sandbox, in the directory of the
# image's unpacked files. Links are resolved with the image as the root directory, so none leads out of it. An image
# without users gets root, because many programs look up their own user.
#
# In Perl, because Node cannot call openat2(2), and a sandbox may lack Node.
use strict;
use warnings;

my %root = ( passwd => "root:x:0:0:root:/root:/bin/sh\n", group => "root:x:0:\n" );
my ( $OPENAT2, $HERE, $HERE_IS_THE_ROOT ) = ( 437, -100, 0x10 );
my ( $READ_AND_WRITE, $CREATE, $WITHOUT_WAITING, $CLOSE_ON_EXEC ) = ( 2, oct 100, oct 4000, 0x80000 );
my $longest = 1 << 20;

mkdir 'etc';
for my $name (qw(passwd group)) {
    my ( $path, $text, $file ) = ( "etc/$name", '' );
    my $how = pack 'Q3', $READ_AND_WRITE | $CREATE | $WITHOUT_WAITING | $CLOSE_ON_EXEC, oct 644, $HERE_IS_THE_ROOT;
    my $opened = syscall $OPENAT2, $HERE, $path, $how, length $how;
    if ( $opened >= 0 && open( $file, '+<&=', $opened ) && -f $file && -s _ < $longest ) {
        read $file, $text, $longest;
        if ( $text eq '' ) {
            $text = $root{$name};
            seek $file, 0, 2;
            print $file $text;
        }
    }
    $text =~ tr/\0//d;
    print "$text\0";
}
