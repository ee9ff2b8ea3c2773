# The workbench of one slot: mounts what a run needs, inside a mount namespace of its own.
#
# Node cannot call mount(2), and a mount(8) process per mount costs more than the mount itself, so
# this small process stays for as long as its slot. It is started by unshare(1); what it mounts is
# seen in its namespace alone and is gone, whatever happens, when it is gone. It goes when its
# standard input closes, that is at the latest with the runner.
#
# A request is one line of fields with a NUL between them; the answer is one line, "ok" or "no" and why.
# Requests may be sent ahead of the answers; after one that failed, the others are still tried.
#   directory PATH MODE UID GID    fifo PATH
#   overlay TARGET OPTIONS         bind SOURCE TARGET    clear TARGET...
#   remove PATH...                 small trees only; "no" when there is more than a little
use strict;
use warnings;
use POSIX ();

# perl-base, the part that every Debian has, brings no table of system calls.
my %numbers = ( aarch64 => { mount => 40, umount2 => 39 }, x86_64 => { mount => 165, umount2 => 166 } );
my $machine = ( POSIX::uname() )[4];
my $call    = $numbers{$machine};
my ( $MS_NOSUID, $MS_NODEV, $MS_BIND, $MNT_DETACH ) = ( 2, 4, 4096, 2 );
$| = 1;
if ( !$call ) { answer("no: the system calls of $machine are not known here"); exit 1 }

sub answer { print "$_[0]\n" }

sub mount_at {
    my ( $source, $target, $type, $flags, $data ) = @_;    # copies: syscall takes no constants
    mkdir $target unless -d $target;
    return syscall( $call->{mount}, $source, $target, $type, $flags + 0, $data ) == 0;
}

# Deep or wide trees are left to the caller, who can wait for them without holding up this slot's other requests.
sub remove_small {
    my ( $path, $budget ) = @_;
    return unlink $path if -l $path || !-d _;
    opendir my $handle, $path or return 0;
    my @names = grep { $_ ne '.' && $_ ne '..' } readdir $handle;
    closedir $handle;
    for my $name (@names) {
        if ( $$budget-- <= 0 ) { $! = POSIX::ENOTEMPTY(); return 0 }
        remove_small( "$path/$name", $budget ) or return 0;
    }
    return rmdir $path;
}

my %requests = (
    directory => sub {
        my ( $path, $mode, $uid, $gid ) = @_;
        return mkdir($path) && chown( $uid, $gid, $path ) && chmod( oct $mode, $path );
    },
    remove => sub {
        my $budget = 64;
        for my $path (@_) { remove_small( $path, \$budget ) or $!{ENOENT} or return 0 }
        return 1;
    },
    overlay => sub { mount_at( 'overlay', $_[0], 'overlay', $MS_NOSUID | $MS_NODEV, $_[1] ) },
    bind    => sub { mount_at( $_[0], $_[1], 'none', $MS_BIND, '' ) },
    fifo    => sub { POSIX::mkfifo( $_[0], 0600 ) },
    # Detached, because the namespaces of the dead run may not be gone yet, and must not hold up the next.
    clear => sub {
        for my $target (@_) { return 0 if syscall( $call->{umount2}, $target, $MNT_DETACH ) != 0 }
        return 1;
    },
);

# /sys becomes the bench: nothing that a runner keeps can lie there, so covering it hides nothing.
if ( !mount_at( 'bench', '/sys', 'tmpfs', $MS_NOSUID | $MS_NODEV, 'mode=0755,size=1m' ) ) { answer("no: $!"); exit 1 }
answer('ok');

while ( my $line = <STDIN> ) {
    chomp $line;
    my ( $name, @fields ) = split /\0/, $line, -1;
    if   ( $requests{$name}->(@fields) ) { answer('ok') }
    else                                 { answer("no: $!") }
}
