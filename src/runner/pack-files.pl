# Lists all that a build left in its workspace and its home, for pack-files.ts. It runs in a sandbox of its own, as root, in a
# directory with both, and with "facts". Devices and sockets would be useless in another sandbox, and stay behind.
#
# Argument: the most bytes of all files. The list has names, each followed by a NUL. Status 3: there is more.
use strict;
use warnings;
no warnings 'recursion';

my ($most) = @ARGV;
my ( $KIND, $DIRECTORY, $FILE, $LINK, $PIPE ) = map { oct } qw(170000 040000 100000 120000 010000);
my %is_packed = map { $_ => 1 } $DIRECTORY, $FILE, $LINK, $PIPE;
my ( $bytes, %counted ) = (0);

sub fail { print "$_[0]\n"; exit 1 }

sub list {
    my ( $to, $path ) = @_;
    my ( undef, $inode, $mode, $links, undef, undef, undef, $size ) = lstat $path or fail("an entry cannot be read: $!");
    my $kind = $mode & $KIND;
    return if !$is_packed{$kind};
    print $to "$path\0";
    if ( $kind == $DIRECTORY ) {
        opendir my $directory, $path or fail("a directory cannot be read: $!");
        list( $to, "$path/$_" ) for grep { $_ ne '.' && $_ ne '..' } readdir $directory;
        return;
    }
    $bytes += $size unless $links > 1 && $counted{$inode}++;
    if ( $bytes > $most ) { print "too large\n"; exit 3 }
}

open my $to, '>', '/build/list' or fail("$!");
list( $to, $_ ) for qw(workspace home facts);
close $to or fail("$!");
