# The mounts of mount-helper.pl, which explains them. In Perl because Node cannot make these system calls.
use strict;
use warnings;

# No modules are loaded, because each fork copies the memory. So the numbers of system calls are written here. Those
# above 400 are the same on every architecture.
my %numbers = (
    arm64 => {
        mount => 40, umount2 => 39, statfs => 43, fstatfs => 44, prctl => 167, unshare => 97, keyctl => 219, setns => 268,
        ppoll => 73, close => 57, dup3 => 24, rt_sigprocmask => 135, setgroups => 159, setgid => 144, setuid => 146, exit_group => 94,
        mknodat => 33, unlinkat => 35, utimensat => 88, wait4 => 260,
    },
    x64 => {
        mount => 165, umount2 => 166, statfs => 137, fstatfs => 138, prctl => 157, unshare => 272, keyctl => 250, setns => 308,
        ppoll => 271, close => 3, dup3 => 292, rt_sigprocmask => 14, setgroups => 116, setgid => 106, setuid => 105, exit_group => 231,
        mknodat => 259, unlinkat => 263, utimensat => 280, wait4 => 61,
    },
);
our ($machine) = @ARGV;
our $call = $numbers{$machine};
our ( $OPEN_TREE, $MOVE_MOUNT, $OPENAT2, $MOUNT_SETATTR ) = ( 428, 429, 437, 442 );
our ( $MS_RDONLY, $MS_NOSUID, $MS_NODEV, $MS_NOEXEC, $MS_REMOUNT ) = ( 1, 2, 4, 8, 32 );
our ( $MS_BIND, $MS_MOVE, $MS_REC, $MS_SHARED, $MNT_DETACH ) = ( 4096, 8192, 1 << 14, 1 << 20, 2 );
my ( $ENOTDIR, $ENOTEMPTY, $NEW_NETWORK ) = ( 20, 39, 0x40000000 );
our $ELOOP = 40;
my $CLOSE_ON_EXEC = 0x80000;
our ( $base, $run_directory ) = ( '/sys/base', '/sys/run' );
our ( $root, $belongings, $nook ) = map { "$run_directory/$_" } qw(root own nook);

# The parts that all sandboxes share: mounts and directories of the root, its links, and the directories that each run
# owns.
my ( @mounts, @directories, @links, @own );

# The translations of owners for the run in whose namespaces this process is, by name, if it has any.
our $owners;

sub mount_at {
    my ( $source, $target, $type, $flags, $data ) = @_;    # copies: syscall takes no constants
    return syscall( $call->{mount}, $source, $target, $type, $flags + 0, $data ) == 0;
}

# Makes the directories on the way to a mount point. No link is followed: existing mounts may contain links, and these
# have another meaning here than in a sandbox.
sub make_way {
    my ($target) = @_;
    my $path = '';
    for my $part ( grep { $_ ne '' } split m{/}, $target ) {
        $path .= "/$part";
        if ( -l $path ) { $! = $ELOOP; return 0 }
        next if -d _;
        mkdir $path or return 0;
    }
    return 1;
}

# Everything that a run is shown is opened here, and mounted by its descriptor. Strangers have filled most of it, and a link
# that they left could lead anywhere on this machine. So no part of the path may be a link; those that are the operator's
# were resolved by the runner. It must be a directory, unless anything is taken. Returns the descriptor, or -1.
sub open_source {
    my ( $path, $is_any ) = @_;
    my ( $HERE, $WITHOUT_READING, $NO_LINKS ) = ( -100, oct '10000000', 4 );
    my $name = $is_any ? $path : "$path/.";    # only a directory has this entry
    my $how = pack 'Q3', $WITHOUT_READING | $CLOSE_ON_EXEC, 0, $NO_LINKS;
    return syscall( $OPENAT2, $HERE, $name, $how, length $how );
}

# Closes a descriptor, and returns what came of it; the reason of a failure stays.
sub closing {
    my ( $descriptor, $done ) = @_;
    my $why = $! + 0;
    syscall( $call->{close}, $descriptor );
    $! = $why;
    return $done;
}

# A file is bound over one that is there already.
sub bind_at {
    my ( $source, $target, $mode, $whose, $is_file ) = @_;
    my $opened = open_source( $source, $is_file );
    return 0 if $opened < 0;
    my $has_way = make_way( $is_file ? $target =~ s{/[^/]*$}{}r : $target );
    return closing( $opened, $has_way && bind_opened( $opened, $target, $mode, $whose ? $owners->{$whose} : undef, $is_file ) );
}

# A mount is visible in the sandbox at once. So it gets its flags in a separate place first, and is moved afterwards.
# Restrictions of the source's own mount stay: in a user's own namespace they could not be lifted anyway.
sub bind_opened {
    my ( $source, $target, $mode, $id_map, $is_file ) = @_;
    my $facts = "\0" x 256;
    syscall( $call->{fstatfs}, $source, $facts ) == 0 or return 0;
    my $forbidden = unpack( 'x80 Q', $facts ) & 15;
    my $flags     = $forbidden | $MS_NOSUID | $MS_NODEV | ( $mode eq 'ro' ? $MS_RDONLY : 0 );
    return bind_cloned( $source, $target, $flags, $id_map ) if $id_map || $is_file;
    mount_at( "/proc/self/fd/$source", $nook, 'none', $MS_BIND, '' ) or return 0;
    return 1
      if mount_at( 'none', $nook, 'none', $MS_REMOUNT | $MS_BIND | $flags, '' )
      && mount_at( $nook, $target, 'none', $MS_MOVE, '' );
    my $why = $! + 0;
    syscall( $call->{umount2}, $nook, $MNT_DETACH );
    $! = $why;
    return 0;
}

# The same by newer calls, which older kernels lack: with translated owners of files, or for a file, which would not fit on
# the separate place. The flags of mount_setattr(2) for read-only, nosuid, nodev and noexec have the values of the older ones.
sub bind_cloned {
    my ( $source, $target, $flags, $id_map ) = @_;
    my ( $HERE, $CLONE, $EMPTY_PATH, $ID_MAP ) = ( -100, 1, 0x1000, 0x100000 );
    my $empty = '';
    my $tree = syscall( $OPEN_TREE, $source, $empty, $CLONE | $EMPTY_PATH | $CLOSE_ON_EXEC );
    return 0 if $tree < 0;
    my $attributes = pack 'Q4', $flags | ( $id_map ? $ID_MAP : 0 ), 0, 0, $id_map ? fileno $id_map : 0;
    my $done = syscall( $MOUNT_SETATTR, $tree, $empty, $EMPTY_PATH, $attributes, length $attributes ) == 0
      && syscall( $MOVE_MOUNT, $tree, $empty, $HERE, $target, 4 ) == 0;
    return closing( $tree, $done );
}

# The kernel shows there the network of whoever mounts it, so that is the run's meanwhile, if it has one. What the firmware says
# of the machine is covered. As something is covered, the kernel lets nobody mount this file system anew.
sub show_sys {
    my ( $target, $network ) = @_;
    open my $own, '<', '/proc/self/ns/net' or return 0;
    make_way($target) && ( !$network || syscall( $call->{setns}, fileno $network, $NEW_NETWORK ) == 0 ) or return 0;
    my $done = mount_sys($target);
    my $why  = $! + 0;
    syscall( $call->{umount2}, $nook, $MNT_DETACH ) if !$done;
    syscall( $call->{setns}, fileno $own, $NEW_NETWORK ) == 0 or die "cannot come back: $!";
    $! = $why;
    return $done;
}

sub mount_sys {
    my ($target) = @_;
    my $flags = $MS_RDONLY | $MS_NOSUID | $MS_NODEV | $MS_NOEXEC;
    return mount_at( 'sysfs', $nook, 'sysfs', $flags, '' )
      && mount_at( 'none', "$nook/firmware", 'tmpfs', $flags, 'mode=0755,size=4k' )
      && mount_at( $nook, $target, 'none', $MS_MOVE, '' );
}

sub write_file {
    my ( $path, $text ) = @_;
    open my $file, '>', $path or return 0;
    return defined( syswrite $file, $text ) && close $file;
}

# The parts that every sandbox shows are made once, with their flags; a run needs one mount for each part. All of it
# belongs to the machine and is read-only.
sub make_base {
    my ( $etc, $programs, $directories, $links, $own ) = @_;
    @mounts      = ( 'dev', 'etc', split /\x01/, $programs );
    @directories = split /\x01/, $directories;
    @links       = groups_of( 2, $links );
    @own         = groups_of( 3, $own );
    mkdir($base) && make_devices("$base/dev") or return 0;
    for my $name ( @mounts[ 1 .. $#mounts ] ) {
        my $place = "$base/$name";
        mkdir($place) && mount_at( $name eq 'etc' ? $etc : "/$name", $place, 'none', $MS_BIND | $MS_REC, '' ) or return 0;
        restrict( $_, $MS_RDONLY | $MS_NOSUID | $MS_NODEV ) or return 0 for mounts_in($place);
    }
    return 1;
}

sub groups_of {
    my ( $size, $text ) = @_;
    my @fields = split /\x01/, $text, -1;
    my @groups;
    push @groups, [ splice @fields, 0, $size ] while @fields;
    return @groups;
}

# The same as bubblewrap's --dev. The writable parts, terminals and shared memory, are mounted for each run. Devices are
# made anew, because every mount costs a run a little, and most of a sandbox's would be those of devices. Who is not the
# machine's root cannot make any, and must show the machine's.
sub make_devices {
    my ($dev) = @_;
    mkdir($dev) && mount_at( 'dev', $dev, 'tmpfs', $MS_NOSUID, 'mode=0755,size=64k' ) or return 0;
    for my $name (qw(null zero full random urandom tty)) {
        make_device( "/dev/$name", "$dev/$name" ) || show_device( "/dev/$name", "$dev/$name" ) or return 0;
    }
    mkdir "$dev/$_" or return 0 for qw(pts shm);
    my %links = ( fd => '/proc/self/fd', core => '/proc/kcore', ptmx => 'pts/ptmx' );
    $links{ ( 'stdin', 'stdout', 'stderr' )[$_] } = "/proc/self/fd/$_" for 0 .. 2;
    symlink $links{$_}, "$dev/$_" or return 0 for keys %links;
    return restrict( $dev, $MS_RDONLY | $MS_NOSUID );
}

sub make_device {
    my ( $like, $place ) = @_;
    my ( $HERE, $CHARACTER_DEVICE, $all ) = ( -100, oct '20000', oct '666' );
    my $number = ( stat $like )[6] // return 0;
    return syscall( $call->{mknodat}, $HERE, $place, $CHARACTER_DEVICE, $number ) == 0 && chmod $all, $place;
}

sub show_device {
    my ( $device, $place ) = @_;
    return write_file( $place, '' ) && mount_at( $device, $place, 'none', $MS_BIND, '' ) && restrict( $place, $MS_NOSUID );
}

# Restrictions of a mount stay: in a user's own namespace they could not be lifted anyway.
sub restrict {
    my ( $place, $flags ) = @_;
    my $facts = "\0" x 256;
    syscall( $call->{statfs}, $place, $facts ) == 0 or return 0;
    return mount_at( 'none', $place, 'none', $MS_REMOUNT | $MS_BIND | $flags | unpack( 'x80 Q', $facts ) & 15, '' );
}

# All mounts at a place and below it.
sub mounts_in {
    my ($place) = @_;
    open my $list, '<', '/proc/self/mountinfo' or return;
    my @places = map { ( split ' ' )[4] } <$list>;
    s/\\([0-7]{3})/chr oct $1/ge for @places;
    return grep { $_ eq $place || index( $_, "$place/" ) == 0 } @places;
}

# The root is not visible to any process yet, and its parts have their flags already: each place takes one mount.
sub furnish {
    my ( $folder, $uid, $gid, $top ) = @_;
    mkdir $root or return 0;
    # Root of a sandbox may add to the top of it, on disk.
    my $made = $top
      ? make_directory( "$folder/root", '755', @$top ) && bind_at( "$folder/root", $root, 'rw', 'image' )
      : mount_at( $root, $root, 'none', $MS_BIND, '' );
    $made && mount_at( 'none', $root, 'none', $MS_SHARED, '' ) or return 0;
    mkdir "$root/$_" or return 0 for @mounts, @directories;
    symlink $_->[1], "$root/$_->[0]" or return 0 for @links;
    mount_at( "$base/$_", "$root/$_", 'none', $MS_BIND | $MS_REC, '' ) or return 0 for @mounts;
    mount_at( 'shm', "$root/dev/shm", 'tmpfs', $MS_NOSUID | $MS_NODEV, 'mode=1777' )
      && mount_at( 'devpts', "$root/dev/pts", 'devpts', $MS_NOSUID | $MS_NOEXEC, 'newinstance,ptmxmode=0666,mode=620' )
      && bind_at( $folder, $belongings, 'rw', 'files' )
      or return 0;
    for (@own) {
        my ( $name, $mode, $place ) = @$_;
        make_directory( "$folder/$name", $mode, $uid, $gid ) or return 0;
        if ( $place ne '' ) { mount_at( "$belongings/$name", "$root$place", 'none', $MS_BIND, '' ) or return 0 }
    }
    return 1;
}

# The sandbox's own places, which an image cannot replace. Those below other directories (the home, links in /var, files
# in /etc) are in a layer over the image's files.
my %own_place    = map { $_ => 1 } qw(build dev proc run tmp);
my $most_entries = 200;

# The other entries of an open directory: an image's or a root's.
sub entries_of {
    my ($place) = @_;
    my @names = grep { !/^\.\.?$/ && !$own_place{$_} } readdir $place;
    if ( @names > $most_entries ) { $! = $ENOTEMPTY; return }
    return \@names;
}

# What a run in an image has at its top: the target of a link, and nothing for a directory or a file.
sub look_through {
    my ($image) = @_;
    opendir my $place, $image or return;
    my $names = entries_of($place) or return;
    my %entries;
    for my $name (@$names) {
        if    ( -l "$image/$name" ) { $entries{$name} = [ 'link', readlink "$image/$name" ] }
        elsif ( -d _ )              { $entries{$name} = ['directory'] }
        elsif ( -f _ )              { $entries{$name} = ['file'] }       # pipes, sockets and devices do not show
    }
    return \%entries;
}

# Removes everything from a root, given as an open directory, but the directories that the image has too, which will be
# covered. Returns their names. A waiting sandbox has bound the machine's programs, and the kernel lets nobody unmount
# them there. But who removes a directory on which only other namespaces have mounts takes these mounts away with it,
# everywhere. So this is to be called from outside the run's namespaces.
sub clear_root {
    my ( $place, $entries ) = @_;
    my ( $path, $budget ) = ( '/proc/self/fd/' . fileno $place, $most_entries );
    my $names = entries_of($place) or return;
    my %stays;
    for my $name (@$names) {
        next if syscall( $call->{unlinkat}, fileno $place, $name, 0 ) == 0;    # no directory, then
        if ( $entries->{$name} && $entries->{$name}[0] eq 'directory' ) { $stays{$name} = 1 }
        else                                                            { remove_small( "$path/$name", \$budget ) or return }
    }
    return \%stays;
}

# The entries of an image take their places, and over them the directories that the run owns. Each shows with the flags
# of the mount that it is in.
sub show_image {
    my ( $image, $entries, $stays ) = @_;
    for my $name ( keys %$entries ) {
        my ( $kind, $target ) = @{ $entries->{$name} };
        my $to = "$root/$name";
        if ( $kind eq 'link' ) { $stays->{$name} || symlink $target, $to or return 0; next }
        $stays->{$name} || ( $kind eq 'directory' ? mkdir $to : write_file( $to, '' ) ) or return 0;
        my $entry = open_source( "$image/$name", $kind eq 'file' );
        return 0 if $entry < 0;
        closing( $entry, mount_at( "/proc/self/fd/$entry", $to, 'none', $MS_BIND, '' ) ) or return 0;
    }
    for ( grep { $_->[2] =~ m{^/([^/]+)} && !$own_place{$1} } @own ) {
        my $to = "$root$_->[2]";
        make_way($to) && mount_at( "$belongings/$_->[0]", $to, 'none', $MS_BIND, '' ) or return 0;
    }
    return 1;
}

sub make_directory {
    my ( $path, $mode, $uid, $gid ) = @_;
    return mkdir($path) && chown( $uid, $gid, $path ) && chmod( oct $mode, $path );
}

# Moves directories of a run into a new one, and makes empty ones like them in their place. Each comes with its time. Nobody
# may rename a directory on which the own namespace has a mount, so this is to be called from outside the run's.
sub renew_directories {
    my ( $folder, $to, @those ) = @_;
    mkdir "$folder/$to" or return 0;
    for (@those) {
        my ( $name, @time ) = split /\x01/;
        my $place = "$folder/$name";
        my ( $mode, $uid, $gid ) = ( lstat $place )[ 2, 4, 5 ] or return 0;
        rename( $place, "$folder/$to/$name" )
          && make_directory( $place, '755', $uid, $gid )
          && set_mode_and_time( $place, sprintf( '%o', $mode & oct '7777' ), @time )
          or return 0;
    }
    return 1;
}

# Perl and Node know times as floating point numbers, which have no nanoseconds. No link is followed.
sub set_mode_and_time {
    my ( $path, $mode, $seconds, $nanoseconds ) = @_;
    my ( $HERE, $times, $NO_LINK ) = ( -100, pack( 'q4', ( $seconds, $nanoseconds ) x 2 ), 256 );
    return chmod( oct $mode, $path ) && syscall( $call->{utimensat}, $HERE, $path, $times, $NO_LINK ) == 0;
}

# Deep or wide trees are left to the caller, which can wait for them without blocking other requests. Most directories
# are empty, so each is tried first. No link is followed.
sub remove_small {
    my ( $path, $budget ) = @_;
    return 1 if rmdir $path;
    return unlink $path if $! == $ENOTDIR;
    return 0            if $! != $ENOTEMPTY;
    opendir my $handle, $path or return 0;
    my @names = grep { $_ ne '.' && $_ ne '..' } readdir $handle;
    closedir $handle;
    for my $name (@names) {
        if ( $$budget-- <= 0 ) { $! = $ENOTEMPTY; return 0 }
        remove_small( "$path/$name", $budget ) or return 0;
    }
    return rmdir $path;
}

1;
