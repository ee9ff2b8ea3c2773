# Moves a directory to the place of an empty one. Arguments: FROM, the target TREE, the PATH in that tree, and the
# time that the directory around it has afterwards. Links on the way are not followed. Status 1: there is no such place.
#
# In Perl, because a sandbox shows the machine's programs, Perl among them, and need not have Node.
use strict;
use warnings;

my ( $from, $tree, $path, $time ) = @ARGV;
my @parts = split m{/}, $path, -1;
exit 1 if grep { $_ eq '' || $_ eq '.' || $_ eq '..' } @parts;
my $last = pop @parts;
chdir $tree or die "$tree: $!\n";
for my $part (@parts) {
    exit 1 if -l $part || !-d _;
    chdir $part or die "$part: $!\n";
}
exit 1 if -l $last || !-d _ || !rmdir $last;
rename( $from, $last ) && utime( $time, $time, '.' ) or die "$path: $!\n";
