# Prints a digest of the files of a commit that match patterns: of the mode, object and path of each. It begins with
# match-globs.pl.
#
# Arguments: the commit; the number of words of the git command, and these; then the patterns.
#
# A submodule counts if a pattern leads to it or into it. Attributes decide how git writes files, so a .gitattributes
# counts if a file in its directory or below it does.
use strict;

my $damaged = 3;    # the status if git cannot list the files
my ( $commit, $words, @patterns ) = @ARGV;
my @git = splice @patterns, 0, $words;

open my $listed, '-|', @git, 'ls-tree', '-r', '-z', '--full-tree', $commit or die "git: $!\n";
open my $digest, '|-', 'sha256sum' or die "sha256sum: $!\n";
$/ = "\0";
my ( %attributes, %above );
my @way = ( first_states(@patterns) );    # to the directory of the last file
my @last;
while ( my $entry = <$listed> ) {
    my ( $mode, $path ) = $entry =~ /\A(\d+) [^\t]*\t(.*)\0\z/s or exit $damaged;
    my @names = split m{/}, $path;
    my $name = pop @names;
    my $same = 0;
    $same++ while $same < @names && $same < @last && $names[$same] eq $last[$same];
    splice @way, $same + 1;
    push @way, advance( $way[-1], $_ ) for @names[ $same .. $#names ];
    @last = @names;
    my $states = advance( $way[-1], $name );
    if ( $mode eq '160000' ? @$states : ends_in($states) ) {
        print $digest $entry or die "sha256sum: $!\n";
        for ( my $at = @names; $at >= 0; $at-- ) { last if $above{ join '/', @names[ 0 .. $at - 1 ] }++ }
    }
    elsif ( $name eq '.gitattributes' ) { $attributes{ join '/', @names } = $entry }
}
close $listed or exit $damaged;
for ( sort keys %attributes ) { print $digest $attributes{$_} or die "sha256sum: $!\n" if $above{$_} }
close $digest or die "sha256sum ended with $?\n";
