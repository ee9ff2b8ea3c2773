# Gives files in the working directory other owners. It runs in a sandbox, as root of it. No link is followed.
#
# Arguments: how, a user's number, a group's number. How is one of
#   exchange: what belongs to root belongs to that user afterwards, and the other way round
#   take: what belongs to that user belongs to root afterwards
# So with the groups.
#
# In Perl, because a sandbox need not have Node, and no program of the machine exchanges owners.
use strict;
use warnings;
no warnings 'recursion';
use POSIX ();

my %kinds = (
    exchange => sub { my ( $id, $other ) = @_; return $id == 0 ? $other : $id == $other ? 0 : $id },
    take     => sub { my ( $id, $other ) = @_; return $id == $other ? 0 : $id },
);
my ( $how, $user, $group ) = @ARGV;
my $becomes = $kinds{$how} // die "not a way to give files: $how\n";

# Files with several names are exchanged once. What is taken twice is the same as if it were taken once, and an overlay makes a
# file of its own of each name.
my %done;

# Directory by directory, with each as the working directory: paths may be longer than the kernel takes.
sub give_all {
    opendir my $here, '.' or die "cannot read a directory: $!\n";
    my @names = grep { $_ ne '.' && $_ ne '..' } readdir $here;
    closedir $here;
    for my $name (@names) {
        my ( $device, $inode, $mode, $names, $uid, $gid ) = lstat $name or die "$name: $!\n";
        next if $how eq 'exchange' && $names > 1 && !-d _ && $done{"$device:$inode"}++;
        if ( -d _ ) {
            chdir $name or die "$name: $!\n";
            give_all();
            chdir '..' or die "$name: $!\n";
        }
        my ( $to, $to_group ) = ( $becomes->( $uid, $user ), $becomes->( $gid, $group ) );
        next if $to == $uid && $to_group == $gid;
        POSIX::lchown( $to, $to_group, $name ) or die "$name: $!\n";
        # The kernel takes set-user-id away with the owner.
        if ( -f _ && $mode & 06000 ) { chmod $mode & 07777, $name or die "$name: $!\n" }
    }
}

give_all();
