# Follows names through patterns. Other programs begin with it. A pattern is the number of the glob that it belongs to,
# and an expression for each name on the way or "**" (see domain/globs.ts), with slashes between them.

use strict;

# A state is a pattern and a place in it: what the next name has to match, an expression or '' for any directories.
# Behind its end everything matches.
sub states_at {
    my ( $pattern, $at ) = @_;
    my $part = $pattern->{parts}[$at];
    return ( [ $pattern, $at ], defined $part && !ref $part ? states_at( $pattern, $at + 1 ) : () );
}

sub first_states {
    my @states;
    for (@_) {
        my ( $glob, @parts ) = split m{/};
        push @states, states_at( { glob => $glob, parts => [ map { $_ eq '**' ? '' : qr/\A(?:$_)\z/s } @parts ] }, 0 );
    }
    return \@states;
}

sub advance {
    my ( $states, $name ) = @_;
    my ( @next, %known );
    for (@$states) {
        my ( $pattern, $at ) = @$_;
        my $part = $pattern->{parts}[$at];
        my @reached =
            ref $part        ? $name =~ $part ? states_at( $pattern, $at + 1 ) : ()
          : $name =~ /^\./   ? ()
          :                    states_at( $pattern, $at );
        push @next, grep { !$known{"$_->[0] $_->[1]"}++ } @reached;
    }
    return \@next;
}

# The states in which a pattern is at its end.
sub ends_in {
    my ($states) = @_;
    return grep { !defined $_->[0]{parts}[ $_->[1] ] } @$states;
}
