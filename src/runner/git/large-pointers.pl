# Reads paths, with a NUL behind each, and says of those that are pointers of Git LFS what they stand for: the SHA-256, the
# size, and the path, with a NUL behind it.
use strict;

local $/ = "\0";
while ( my $path = <STDIN> ) {
    chomp $path;
    next if -l $path || !-f _ || -s _ > 1024;
    open my $file, '<', $path or next;
    read $file, my $text, 1025;
    my $version = qr{version [ ] https?://(?:git-lfs|hawser)[.]github[.]com/spec/v1}x;
    next if $text !~ /\A$version\noid sha256:([0-9a-f]{64})\nsize (\d{1,15})\n\z/;
    print "$1 $2 $path\0";
}
