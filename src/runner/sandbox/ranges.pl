# The ranges of user IDs that runs have, for mount-helper.pl. In Perl like it: Node cannot lock a part of a file.
#
# No two runs on a machine may have the same range at the same time, whichever runners they belong to. All helpers have one
# file open, and the one that has locked a byte of it has the range with that number. The kernel takes away the locks of a
# helper that was killed, and the processes of its runs end a moment later: so a range is passed over while somebody is in it.
use strict;
use warnings;

our $ids_in_range = 65536;
our $EUSERS       = 87;
my $path = '/run/headrace-ids';
my ( $READ_AND_WRITE, $CREATE, $ONLY_OWNER, $SET_LOCK, $WRITE_LOCK, $UNLOCK ) = ( 2, oct 100, oct 600, 6, 1, 2 );

# The locks; the number of the range that was tried last; and those that are taken here.
my ( $locks, $last, %taken );

# Returns the first ID of a range that nobody else has. COUNT ranges begin with the ID FIRST.
sub take_range {
    my ( $first, $count ) = @_;
    if ( !$locks ) { sysopen $locks, $path, $READ_AND_WRITE | $CREATE, $ONLY_OWNER or return }
    # Random, so that runners that do not see each other, each in a container of its own, most likely have others.
    $last //= int rand $count;
    for ( 1 .. $count ) {
        $last = ( $last + 1 ) % $count;
        my $start = $first + $last * $ids_in_range;
        next if $taken{$start} || !set_lock( $WRITE_LOCK, $start );
        return $start if $taken{$start} = !is_inhabited($start);
        set_lock( $UNLOCK, $start );
    }
    $! = $EUSERS;
    return;
}

sub give_back { my ($start) = @_; delete $taken{$start}; set_lock( $UNLOCK, $start ) }

# The byte of a range, whatever the first range of its runner is.
sub set_lock {
    my ( $kind, $start ) = @_;
    my $lock = pack 's s x4 q q i x4', $kind, 0, int( $start / $ids_in_range ), 1, 0;
    return fcntl $locks, $SET_LOCK, $lock;
}

sub is_inhabited {
    my ($start) = @_;
    opendir my $processes, '/proc' or return 1;
    for ( grep { /^\d/ } readdir $processes ) {
        my $user = ( stat "/proc/$_" )[4] // next;
        return 1 if $user >= $start && $user < $start + $ids_in_range && is_alive($_);
    }
    return 0;
}

# In containers nobody may reap what has ended. It holds nothing any more.
sub is_alive {
    my ($pid) = @_;
    open my $file, '<', "/proc/$pid/stat" or return 0;
    return ( <$file> // '' ) !~ /\) [ZX] [^)]*$/;
}

# How IDs that begin with ONE stand for those that begin with OTHER, as extents of a map: the first one stands for the number
# WHO of the others and WHO for the first, and each of the rest for its like. So whoever runs, with the number WHO in a run, owns
# what has the first ID on disk: the same files belong to every run that sees them.
sub extents {
    my ( $one, $other, $who ) = @_;
    my $last  = $ids_in_range - 1;
    my @parts = ( [ 0, $who, 1 ], [ 1, 1, $who - 1 ], [ $who, 0, 1 ], [ $who + 1, $who + 1, $last - $who ] );
    @parts = ( [ 0, 0, $ids_in_range ] ) if $who == 0;
    return join '', map { sprintf "%d %d %d\n", $one + $_->[0], $other + $_->[1], $_->[2] } grep { $_->[2] > 0 } @parts;
}

1;
