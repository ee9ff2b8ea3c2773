import * as fc from 'fast-check';

/** The tests always try the same inputs. `npm run soak` tries new ones, and prints the seed. */
fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? 1) });

export * from 'fast-check';
