# Removes what is left of runs, for mount-helper.pl. In Perl because it gets namespaces as open
# descriptors, which Node cannot receive.
#
# Closing a mount namespace for the last time waits until everything in it is unmounted, and removing a directory may wait
# for the disk. Other runs would wait for the helper meanwhile. So this process does both, one request after the other. It
# answers the runner itself, over the helper's standard output.
#
# A message is "gone NAME", together with the namespaces of a run that is over, which are closed; or "remove PATH...".
use strict;
use warnings;

our $call;
my $ENOENT = 2;
my $cleaner;

# Returns its process id.
sub open_cleaner { ( my $pid, $cleaner ) = open_process( \&clean ); return $pid }

sub ask_to_let_go { my ( $name, @handles ) = @_; return send_message( $cleaner, [ map { fileno $_ } @handles ], 'gone', $name ) }
sub ask_to_remove { return send_message( $cleaner, [], 'remove', @_ ) }

sub clean {
    my $next = receiver(@_);
    while ( my ( $text, @descriptors ) = $next->() ) {
        my ( $what, @fields ) = split /\0/, $text, -1;
        syscall( $call->{close}, $_ ) for @descriptors;
        my $answer = $what eq 'gone' ? "$fields[0] gone\n" : remove(@fields) ? "- ok\n" : "- no: $!\n";
        syswrite STDOUT, $answer;    # short enough to be written in one piece
    }
}

sub remove {
    my $budget = 64;
    for my $path (@_) { remove_small( $path, \$budget ) or $! == $ENOENT or return 0 }
    return 1;
}

1;
