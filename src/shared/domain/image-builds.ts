/** Why a suite cannot say that its builds make images. */
export const imageBuildsOff = 'The operator of this server does not let builds make images (HEADRACE_IMAGE_BUILDS).';
