/** These values are part of the API. */
export type CannotRunReason =
  | 'images_not_possible'
  | 'image_builds_off'
  | 'image_builds_not_possible'
  | 'image_invalid'
  | 'image_not_found'
  | 'image_access_refused'
  | 'image_digest_mismatch'
  | 'image_wrong_architecture'
  | 'image_without_shell'
  | 'image_too_large'
  | 'image_rejected'
  | 'image_pull_failed'
  | 'registry_unreachable'
  | 'registry_untrusted'
  | 'registry_not_allowed'
  | 'disk_full'
  | 'service_not_ready'
  | 'service_died'
  | 'service_prepare_failed'
  | 'services_need_own_network';

/** A run cannot begin or continue. The message is for the run's log, which masks it. */
export class CannotRunError extends Error {
  override name = 'CannotRunError';
  readonly reason: CannotRunReason;

  constructor(reason: CannotRunReason, message: string) {
    super(message);
    this.reason = reason;
  }
}
