/** The sentence for each reason that the API names in one word. */

const reasons: Record<string, string> = {
  timed_out: 'It took longer than it may, and was ended.',
  out_of_memory: 'It needed more memory than it may have, and was ended.',
  out_of_disk: 'It wrote more to the disk than there is room for, and was ended.',
  disk_full: 'The disk is full: it was ended because nothing more could be kept.',
  log_too_long: 'Its log became longer than it may, and it was ended.',
  launch_failed: 'What has to run before the command did not; the log says what.',
  runner_lost: 'The runner that did it was lost. Another attempt was made.',
  dependency_not_compiled: 'A dependency of the suite is not compiled.',
  suite_deleted: 'The suite was deleted before its turn came.',
  rule_too_slow: 'A rule of the suite took too long to compare with the commit, so it was not run; the log says which.',
  not_isolated: 'The runner cannot isolate builds, and ran nothing.',
  key_refused: 'The key of the project is not accepted by the host of the repository.',
  host_unreachable: 'The host of the repository does not answer.',
  repository_not_found: 'There is no such repository, or it is not shown to the key of the project.',
  ref_not_found: 'There is no such branch, tag or commit.',
  images_not_possible: 'The runner cannot use images; the log says why.',
  image_invalid: 'The image cannot be used; the log says why.',
  image_not_found: 'The registry has no such image.',
  image_access_refused: 'The registry does not let the account have the image.',
  image_digest_mismatch: 'What the registry sent does not have the digest that it should have.',
  image_wrong_architecture: 'The image is for another kind of machine than the runner.',
  image_without_shell: 'The image has no shell that runs.',
  image_too_large: 'The image is larger than images may be.',
  image_rejected: "The policy of the runner's machine refuses the image.",
  image_pull_failed: 'The image could not be pulled; the log says why.',
  registry_unreachable: 'The registry of the image does not answer.',
  registry_untrusted: 'The runner does not trust the certificate of the registry.',
  registry_not_allowed: 'The address of the registry is not public, and the operator has not allowed it.',
  too_late: 'Artifacts or the cache are lost: they waited on the runner for longer than they may.',
  no_room: 'Artifacts or the cache are lost: the runner on which they waited needed the room.',
  not_taken: 'Artifacts or the cache are lost: the server did not take them from the runner on which they waited.',
  runner_gone: 'Artifacts or the cache are lost: the runner on which they waited is gone.',
  fetch_timed_out: 'The repository could not be fetched in time.',
};

export function reasonInWords(reason: string): string {
  return reasons[reason] ?? `${reason.charAt(0).toUpperCase()}${reason.slice(1).replaceAll('_', ' ')}.`;
}
