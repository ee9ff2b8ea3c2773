# Takes over what a run has made at one path of its upper directory, for mount-helper.pl.
#
# A build made everything there, but none of its processes lives any more. Only the names on the way are looked at, and no
# link is followed: each name is checked before the next one is appended to it.
use strict;
use warnings;

our $call;
my ( $ENOENT, $HERE, $CHARACTER_DEVICE ) = ( 2, -100, oct '20000' );

# Returns "kept", or "same" when the run has changed nothing there, or "gone" when the run has removed it. The layer then
# hides what the layers below have at the path. Without a layer it only looks.
sub keep {
    my ( $upper, $path, $layer, $uid, $gid, $attribute ) = @_;
    my @parts = split m{/}, $path;
    my $last  = pop @parts;
    my ( $from, $is_cut_off ) = ( $upper, 0 );
    for my $part (@parts) {
        $from .= "/$part";
        if ( !lstat $from ) { return $! == $ENOENT ? without( $is_cut_off, @_ ) : 0 }
        return without( 1, @_ ) if !-d _;
        $is_cut_off ||= is_opaque( $from, $attribute );
    }
    $from .= "/$last";
    if ( !lstat $from ) { return $! == $ENOENT ? without( $is_cut_off, @_ ) : 0 }
    return 'kept' if $layer eq '';
    my $is_directory = -d _;
    my $to = way_to( $layer, $path, $uid, $gid ) or return 0;
    rename $from, $to or return 0;
    # Below a directory that hides the layers below it, nothing else hides them.
    return 0 if $is_cut_off && $is_directory && !hide_below( $to, $attribute );
    return 'kept';
}

# There is nothing at the path any more if something on the way hides the layers below; otherwise it is as it was.
sub without {
    my ( $is_cut_off, $upper, $path, $layer, $uid, $gid ) = @_;
    return 'same' if !$is_cut_off;
    return 'gone' if $layer eq '';
    my $to = way_to( $layer, $path, $uid, $gid ) or return 0;
    return syscall( $call->{mknodat}, $HERE, $to, $CHARACTER_DEVICE, 0 ) == 0 ? 'gone' : 0;
}

# Makes the directories on the way to a path in a layer, which belongs to the runner.
sub way_to {
    my ( $layer, $path, $uid, $gid ) = @_;
    my @parts = split m{/}, $path;
    my $last  = pop @parts;
    my $to    = $layer;
    for my $part (@parts) {
        $to .= "/$part";
        next if lstat $to and -d _;
        mkdir($to) && chown( $uid, $gid, $to ) or return;
    }
    return "$to/$last";
}

sub is_opaque {
    my ( $path, $attribute ) = @_;
    my $value = "\0";
    return syscall( $call->{lgetxattr}, $path, $attribute, $value, 1 ) == 1 && $value eq 'y';
}

sub hide_below {
    my ( $path, $attribute ) = @_;
    my $value = 'y';
    return syscall( $call->{lsetxattr}, $path, $attribute, $value, 1, 0 ) == 0;
}

1;
