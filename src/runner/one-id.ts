/** For the log of a build in an image, if this runner's runs have only one user ID. */
export const oneIdWords =
  'This runner has one user ID for a build in an image: everything there belongs to it, and no other user is available.\n';
