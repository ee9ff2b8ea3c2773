# Gives the files of an image, which are in the working directory, to another user than root of it: what belongs to root belongs
# to that user afterwards, and the other way round; so with the groups. It runs in a sandbox. No link is followed.
#
# Arguments: the user's number, the group's number.
#
# In Perl, because a sandbox need not have Node, and no program of the machine exchanges owners.
use strict;
use warnings;
use POSIX ();

my ( $user, $group ) = @ARGV;

# Files with several names, which are changed once.
my %done;

sub exchanged { my ( $id, $other ) = @_; return $id == 0 ? $other : $id == $other ? 0 : $id }

# Directory by directory, with each as the working directory: paths may be longer than the kernel takes.
sub give_all {
    opendir my $here, '.' or die "cannot read a directory: $!\n";
    for my $name ( grep { $_ ne '.' && $_ ne '..' } readdir $here ) {
        my ( $device, $inode, $mode, $names, $uid, $gid ) = lstat $name or die "$name: $!\n";
        next if $names > 1 && !-d _ && $done{"$device:$inode"}++;
        if ( -d _ ) {
            chdir $name or die "$name: $!\n";
            give_all();
            chdir '..' or die "$name: $!\n";
        }
        my ( $to, $to_group ) = ( exchanged( $uid, $user ), exchanged( $gid, $group ) );
        next if $to == $uid && $to_group == $gid;
        POSIX::lchown( $to, $to_group, $name ) or die "$name: $!\n";
        # The kernel takes set-user-id away with the owner.
        if ( -f _ && $mode & 06000 ) { chmod $mode & 07777, $name or die "$name: $!\n" }
    }
}

give_all();
