# Sets the times of a cache that was just unpacked, for cache-trees.ts: later than those of all work trees, which is the
# argument, and not later than now. Where the clock of the machine that packed it is ahead, all of them go back by as much, so
# that what was later stays later. A time that is more than a day ahead is no clock's, and becomes now.
#
# In Perl, because a sandbox shows the machine's programs, Perl among them, and need not have Node.
use strict;
use warnings;
no warnings 'recursion';
use Time::HiRes qw(lstat time utime);

my ( $old, @roots ) = @ARGV;
my ( $now, $newest, $strays ) = ( time, 0, 0 );
my $day = 24 * 60 * 60;

sub walk {
    my ( $path, $visit ) = @_;
    my ( $mode, $time ) = ( lstat $path )[ 2, 9 ] or die "an entry cannot be read: $!\n";
    if ( ( $mode & 0170000 ) == 0040000 ) {
        opendir my $directory, $path or die "a directory cannot be read: $!\n";
        walk( "$path/$_", $visit ) for grep { $_ ne '.' && $_ ne '..' } readdir $directory;
    }
    $visit->( $path, $time );
}

sub measure {
    my ( undef, $time ) = @_;
    if ( $time > $now + $day || $time <= $old ) { $strays = 1 }
    elsif ( $time > $newest )                   { $newest = $time }
}

sub set {
    my ( $path, $time ) = @_;
    my $new = $time > $now + $day ? $now : $newest > $now ? $time - ( $newest - $now ) : $time;
    $new = $old + $day if $new <= $old;
    return if $new == $time;
    if   ( -l $path ) { my $to = readlink $path; unlink $path and symlink $to, $path or die "a link cannot be made: $!\n" }
    else              { utime $new, $new, $path or die "a time cannot be set: $!\n" }
}

walk( $_, \&measure ) for @roots;
exit if !$strays && $newest <= $now;
walk( $_, \&set ) for @roots;
