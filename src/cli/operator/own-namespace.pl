# Starts a command in a user namespace of its own: ARCHITECTURE UIDS GIDS COMMAND...
#
# Each map is a list of the kernel's lines, separated by commas. newuidmap cannot write them, because /etc/subuid has no
# entry for root. But root of a container may give away its IDs, so a process of root writes the maps itself. It must be
# outside the namespace, so it is forked before.
use strict;
use warnings;

my ( $machine, $uids, $gids, @command ) = @ARGV;
my $NEW_USERS = 0x10000000;
my %unshare   = ( arm64 => 97, x64 => 272 );

sub give_up { print STDERR "$_[0]: $!\n"; exit 1 }

pipe my $made,    my $making or give_up('pipe');
pipe my $written, my $writing or give_up('pipe');
my $own   = $$;
my $child = fork // give_up('fork');
if ( !$child ) {
    close $making;
    close $written;
    exit 1 if !sysread $made, my $word, 1;
    for ( [ uid_map => $uids ], [ gid_map => $gids ] ) {
        my ( $name, $map ) = @$_;
        open my $file, '>', "/proc/$own/$name" or give_up($name);
        syswrite $file, $map =~ s/,/\n/gr . "\n" or give_up($name);
    }
    syswrite $writing, '.';
    exit 0;
}
close $made;
close $writing;
syscall( $unshare{$machine}, $NEW_USERS ) == 0 or give_up('unshare');
syswrite $making, '.';
my $is_written = sysread $written, my $word, 1;
waitpid $child, 0;
exit 1 if !$is_written;
exec { $command[0] } @command or give_up( $command[0] );
