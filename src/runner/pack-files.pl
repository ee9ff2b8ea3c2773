# Lists all that a build left in its workspace and its home, for pack-files.ts. It runs in a sandbox of its own, in a
# directory with both, and with "facts". What its owner may not read, nobody can pack: it is made readable in this view, and
# its mode is written down in facts/modes, as a number, a path and a NUL, the inner ones first. Devices and sockets would be
# useless in another sandbox, and stay behind.
#
# Argument: the most bytes of all files. The list has names, each followed by a NUL. Status 3: there is more.
use strict;
use warnings;
no warnings 'recursion';

my ($most) = @ARGV;
my ( $KIND, $DIRECTORY, $FILE, $LINK, $PIPE ) = map { oct } qw(170000 040000 100000 120000 010000);
my %needed = ( $DIRECTORY => oct 500, $FILE => oct 400, $LINK => 0, $PIPE => 0 );
my ( $bytes, %counted, @modes ) = (0);

sub fail { print "$_[0]\n"; exit 1 }

sub list {
    my ( $to, $path ) = @_;
    my ( undef, $inode, $mode, $links, undef, undef, undef, $size ) = lstat $path or fail("an entry cannot be read: $!");
    my $kind = $mode & $KIND;
    my $bits = $needed{$kind} // return;
    if ( ( $mode & $bits ) != $bits ) {
        chmod $mode & oct(7777) | $bits, $path or fail("a mode cannot be set: $!");
        unshift @modes, sprintf "%o %s\0", $mode & oct 7777, $path;
    }
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
list( $to, $_ ) for qw(workspace home);
open my $modes, '>', 'facts/modes' or fail("$!");
print $modes @modes;
close $modes or fail("$!");
list( $to, 'facts' );
close $to or fail("$!");
