# Reads paths, each followed by a NUL. For each Git LFS pointer it prints the SHA-256, the size, and the path, followed
# by a NUL. Where the folder of stored files is given, it also removes the pointer, so that git writes the file anew, and
# notes the use of the stored file.
#
# In Perl, because a sandbox shows the machine's programs, Perl among them, and need not have Node.
use strict;

my ($store) = @ARGV;
local $/ = "\0";
while ( my $path = <STDIN> ) {
    chomp $path;
    next if -l $path || !-f _ || -s _ > 1024;
    open my $file, '<', $path or next;
    read $file, my $text, 1025;
    my $version = qr{version [ ] https?://(?:git-lfs|hawser)[.]github[.]com/spec/v1}x;
    next if $text !~ /\A$version\noid sha256:([0-9a-f]{64})\nsize (\d{1,15})\n\z/;
    print "$1 $2 $path\0";
    next if !defined $store;
    unlink $path;
    utime undef, undef, join q{/}, $store, 'objects', unpack( 'a2 a2', $1 ), $1;
}
