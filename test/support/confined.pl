# Runs a command as the usual container does: ARCHITECTURE COMMAND... It has no CAP_SYS_ADMIN and no other rights over the
# machine, and a filter that refuses namespaces and mounts, as an engine's own does.
use strict;
use warnings;

my ( $machine, @command ) = @ARGV;
my ( $EPERM, $ENOSYS, $ALLOW, $REFUSE ) = ( 1, 38, 0x7fff0000, 0x00050000 );
my %calls = (
    arm64 => { seccomp => 277, clone => 220, refused => [ 97, 268, 40, 39, 41 ] },
    x64   => { seccomp => 317, clone => 56,  refused => [ 272, 308, 165, 166, 155 ] },
);
my $call    = $calls{$machine};
my @refused = ( @{ $call->{refused} }, 428 .. 433, 442 );    # open_tree, move_mount, fsopen and the like, mount_setattr
my $clone3  = 435;

# Loads a word, compares it, returns.
sub load { pack 'SCCL', 0x20, 0, 0, $_[0] }
sub unless_equal { pack 'SCCL', 0x15, 0, $_[1], $_[0] }
sub unless_any   { pack 'SCCL', 0x45, 0, $_[1], $_[0] }
sub answer { pack 'SCCL', 0x06, 0, 0, $_[0] }
my @program = ( load(0) );
push @program, unless_equal( $_,      1 ), answer( $REFUSE | $EPERM ) for @refused;
push @program, unless_equal( $clone3, 1 ), answer( $REFUSE | $ENOSYS );
push @program, unless_equal( $call->{clone}, 3 ), load(16), unless_any( 0x7e020000, 1 ), answer( $REFUSE | $EPERM );
push @program, answer($ALLOW);
my $text   = join '', @program;
my $filter = pack 'Sx![P]P', scalar @program, $text;
syscall( $call->{seccomp}, 1, 0, $filter ) == 0 or die "seccomp: $!\n";

# What Docker leaves to root.
my $left = 'chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot,mknod,audit_write,setfcap';
my $only = join ',', '-all', map { "+$_" } split /,/, $left;
exec 'setpriv', "--bounding-set=$only", '--inh-caps=-all', '--', @command or die "setpriv: $!\n";
