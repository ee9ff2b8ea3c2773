export const imageBuildsOff = 'The operator of this server does not let builds make images (HEADRACE_IMAGE_BUILDS).';
