# Lists what a layer of a cache has to say, for cache-layers.ts. It runs in a sandbox of its own.
#
# /build/tree is the layer itself, where whiteouts are character devices 0/0; "old" shows the layers below it, "new" those
# and the layer. Without "old" the tree is a whole cache. The list has the names to pack, each followed by a NUL; "removed"
# those that have to go before they are unpacked over the layers below: what the layer hides, and what was a directory and
# is none any more, or the other way round.
#
# A directory may hide everything below it. The mark for that can only be read by root. But it shows: then an entry of the
# directory below is neither in the layer nor in what both show together.
use strict;
use warnings;
no warnings 'recursion';

my ( $most, $old, $new ) = @ARGV;
my ( $KIND, $DIRECTORY, $FILE, $LINK, $DEVICE ) = map { oct } qw(170000 040000 100000 120000 020000);
my ( $bytes, %counted ) = (0);

sub fail { print "$_[0]\n"; exit 1 }

open( my $list, '>', 'list' ) && open( my $removed, '>', 'removed' ) or fail("$!");
print $list "removed\0";

sub names_in {
    my ($path) = @_;
    opendir my $directory, $path or fail("a directory cannot be read: $!");
    return grep { $_ ne '.' && $_ ne '..' } readdir $directory;
}

# The kind of an entry in the layers below, or 0.
sub kind_below { my @facts = defined $old ? lstat "$old$_[0]" : (); return @facts ? $facts[2] & $KIND : 0 }

sub walk {
    my ( $name, $mode, $was_directory ) = @_;
    chmod $mode & 07777 | 0700, "tree$name" if ( $mode & 0700 ) != 0700;
    my @names = names_in("tree$name");
    if ($was_directory) {
        my %here = map { $_ => 1 } @names;
        my ($other) = grep { !$here{$_} } names_in("$old$name");
        if ( defined $other && !lstat "$new$name/$other" ) {
            print $removed substr( $name, 1 ) . "\0" if $name ne '';
            $was_directory = 0;
        }
    }
    print $list "tree$name\0" if $name ne '';
    for my $entry (@names) {
        my $inner = "$name/$entry";
        my @facts = lstat "tree$inner" or fail("an entry cannot be read: $!");
        my ( $entry_mode, $links, $device, $size ) = @facts[ 2, 3, 6, 7 ];
        my $kind  = $entry_mode & $KIND;
        my $below = $was_directory ? kind_below($inner) : 0;
        if ( $kind == $DEVICE && $device == 0 ) { print $removed substr( $inner, 1 ) . "\0"; next }
        if ( $below && ( $below == $DIRECTORY ) != ( $kind == $DIRECTORY ) ) { print $removed substr( $inner, 1 ) . "\0" }
        if ( $kind == $DIRECTORY ) { walk( $inner, $entry_mode, $below == $DIRECTORY ); next }
        # Anything else would be useless in another sandbox.
        if ( $kind != $FILE && $kind != $LINK ) { unlink "tree$inner"; next }
        chmod $entry_mode & 07777 | 0400, "tree$inner" if $kind == $FILE && !( $entry_mode & 0400 );
        $bytes += $size unless $links > 1 && $counted{ $facts[1] }++;
        if ( $bytes > $most ) { print "too large\n"; exit 3 }
        print $list "tree$inner\0";
    }
}

walk( '', 0700, defined $old );
close $list and close $removed or fail("$!");
