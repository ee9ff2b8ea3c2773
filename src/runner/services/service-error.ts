/** Why a build cannot run, or did not go on, because of a service. */
export type ServiceReason =
  | 'service_not_ready'
  | 'service_died'
  | 'service_prepare_failed'
  | 'services_need_own_network';

export class ServiceError extends Error {
  override name = 'ServiceError';
  readonly reason: ServiceReason;

  /** The message is for the log of the build, which masks it. */
  constructor(reason: ServiceReason, message: string) {
    super(message);
    this.reason = reason;
  }
}
