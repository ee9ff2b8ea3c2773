# Compares what a build left at the paths of its cache with what the cache was, and lists it for packing, for cache-trees.ts.
# It runs in a sandbox of its own, as root. That has views, each with a directory for the workspace and one for the home: "left" is
# what the build left, "made" the part of it that the build has written, "old" the cache that it began with; and "commit",
# with a workspace as it was. "left" also has the directory "facts", which is packed too: it gets a list of the commit's files
# that the build has changed. What it made of them is out of date for the next build, which has them as they were. If "old"
# has another list, that is a change too: the next build must not go by a list that is out of date.
#
# Arguments: the most bytes of all files, and the paths, each after its directory. The list has names, each followed by a
# NUL. Status 3: there is more. Status 4: nothing has changed. Times do not count: many tools only touch files.
#
# In Perl, because a sandbox shows the machine's programs, Perl among them, and need not have Node.
use strict;
use warnings;
no warnings 'recursion';
use Errno qw(ENOENT ENOTDIR);

my ( $most, @paths ) = @ARGV;
my ( $KIND, $DIRECTORY, $FILE, $LINK ) = map { oct } qw(170000 040000 100000 120000);
my ( $bytes, %counted ) = (0);

sub fail { print "$_[0]\n"; exit 1 }

# Anything but directories, files and links would be useless in another sandbox: such entries are taken for missing.
sub facts_of {
    my ($path) = @_;
    my @facts = lstat $path;
    if ( !@facts ) { return if $! == ENOENT || $! == ENOTDIR; fail("an entry cannot be read: $!") }
    my $kind = $facts[2] & $KIND;
    return $kind == $DIRECTORY || $kind == $FILE || $kind == $LINK ? @facts : ();
}

# A link on the way to one of the paths leads elsewhere, so there is nothing at the path.
sub is_there {
    my ( $view, $path ) = @_;
    my $way = $view;
    for my $part ( ( split m{/}, $path )[ 0 .. ( $path =~ tr{/}{} ) - 1 ] ) { $way .= "/$part"; return 0 if -l $way || !-d _ }
    return scalar( my @facts = facts_of("$view/$path") );
}

sub names_in {
    my ($path) = @_;
    opendir my $directory, $path or fail("a directory cannot be read: $!");
    return grep { $_ ne '.' && $_ ne '..' } readdir $directory;
}

sub differs {
    my ( $path, $old ) = @_;
    my ( $new, $was ) = map { [ facts_of("$_/$path") ] } 'left', $old;
    return @$new != @$was if !@$new || !@$was;
    return 0              if !lstat "made/$path";
    my $kind = $new->[2] & $KIND;
    return 1 if $kind != ( $was->[2] & $KIND );
    return readlink("left/$path") ne readlink "$old/$path" if $kind == $LINK;
    return 1 if grep { $new->[$_] != $was->[$_] } 2, 4, 5;    # mode and owners
    return $new->[7] != $was->[7] || has_other_content(@_) if $kind == $FILE;
    my %names = map { $_ => 1 } names_in("$old/$path"), names_in("left/$path");
    for my $name ( keys %names ) { return 1 if differs( "$path/$name", $old ) }
    return 0;
}

# Both have the same size.
sub has_other_content {
    my ( $path, $old ) = @_;
    my ( $new, $was ) = map { open my $file, '<:raw', "$_/$path" or fail("a file cannot be read: $!"); $file } 'left', $old;
    for ( ; ; ) {
        my ( $here, $there ) = map { read( $_, my $piece, 1 << 20 ) // fail("a file cannot be read: $!"); $piece } $new, $was;
        return 1 if $here ne $there;
        return 0 if $here eq '';
    }
}

sub list {
    my ( $to, $path ) = @_;
    my ( undef, $inode, $mode, $links, undef, undef, undef, $size ) = facts_of("left/$path") or return;
    print $to "$path\0";
    if ( ( $mode & $KIND ) == $DIRECTORY ) { list( $to, "$path/$_" ) for names_in("left/$path"); return }
    $bytes += $size unless $links > 1 && $counted{$inode}++;
    if ( $bytes > $most ) { print "too large\n"; exit 3 }
}

sub list_changed {
    my ( $to, $path ) = @_;
    my @modes = map { ( facts_of("$_/$path") )[2] // 0 } qw(left commit);
    if ( grep { ( $_ & $KIND ) != $DIRECTORY } @modes ) { print $to './', substr( $path, length 'workspace/' ), "\0" if differs( $path, 'commit' ) }
    elsif ( lstat "made/$path" ) { list_changed( $to, "$path/$_" ) for grep { $_ ne '.git' } sort( names_in("commit/$path") ) }
}

# A build, or another runner, made the old list: it may be missing, or anything but a file.
sub lists_the_same {
    return 1 if !lstat 'old/facts';
    my ( $new, $was ) = map { [ facts_of("$_/facts/changed") ] } qw(left old);
    return $new->[7] == 0 if !@$was;
    return ( $was->[2] & $KIND ) == $FILE && $new->[7] == $was->[7] && !has_other_content( 'facts/changed', 'old' );
}

my %left = map { $_ => is_there( 'left', $_ ) } @paths;
open( my $changed, '>', 'left/facts/changed' ) or fail("$!");
list_changed( $changed, 'workspace' );
close $changed or fail("$!");
my $has_changed = grep { $left{$_} && is_there( 'old', $_ ) ? differs( $_, 'old' ) : $left{$_} || is_there( 'old', $_ ) } @paths;
exit 4 if !$has_changed && lists_the_same();
open( my $to, '>', '/build/list' ) or fail("$!");
list( $to, $_ ) for 'facts', grep { $left{$_} } @paths;
close $to or fail("$!");
