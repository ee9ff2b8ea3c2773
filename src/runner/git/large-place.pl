# Replaces pointers by large files. Arguments: the TREE, and the directory of the OBJECTS, which are named by their
# SHA-256. That directory also has "list": a name, a NUL, the path in the tree, a NUL, for each file. Links are not
# followed.
use strict;
use warnings;
use File::Copy qw(copy);

my ( $tree, $objects ) = @ARGV;
open my $list, '<', "$objects/list" or die "list: $!\n";
my @fields = do { local $/ = undef; split /\0/, <$list> };
my ( @places, %left );
while ( my ( $name, $path ) = splice @fields, 0, 2 ) { push @places, [ $name, $path ]; $left{$name}++ }

PLACE: for (@places) {
    my ( $name, $path ) = @{$_};
    my @parts = split m{/}, $path, -1;
    next if grep { $_ eq '' || $_ eq '.' || $_ eq '..' } @parts;
    my $last = pop @parts;
    chdir $tree or die "$tree: $!\n";
    for my $part (@parts) {
        next PLACE if -l $part || !-d _;
        chdir $part or die "$part: $!\n";
    }
    next if -l $last || !-f _;
    my $mode = ( stat _ )[2] & 0777;
    unlink $last or die "$path: $!\n";
    if ( --$left{$name} ) { copy( "$objects/$name", $last ) or die "$path: $!\n" }
    else                  { rename "$objects/$name", $last or die "$path: $!\n" }
    chmod $mode, $last or die "$path: $!\n";
}
