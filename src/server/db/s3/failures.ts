import { DiskFullError } from '../../../shared/lib/disk-reserve.ts';
import { hasUntrustedIssuer } from '../../../shared/lib/untrusted-issuer.ts';
import { BlobsAwayError } from '../unavailable.ts';
import type { S3Location } from './location.ts';

export class NoSuchObjectError extends Error {
  override name = 'NoSuchObjectError';
  readonly code = 'ENOENT';
}

interface SdkError extends Error {
  code?: string;
  $metadata?: { httpStatusCode?: number };
}

const wrongKeys =
  'rejects the credentials. Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile or role in use';
const unfit = new Set(['ERR_TLS_CERT_ALTNAME_INVALID', 'CERT_HAS_EXPIRED']);

/** Of the SDK's error only the code is used: its objects refer to the request, with its signature. */
export function translated(error: unknown, place: S3Location): Error {
  if (!(error instanceof Error)) return new BlobsAwayError(`S3 failed: ${typeof error}`);
  if (error instanceof BlobsAwayError || error instanceof NoSuchObjectError) return error;
  const { name, code = '', $metadata: { httpStatusCode: status } = {} } = error as SdkError;
  if (name === 'NoSuchKey' || (name === 'NotFound' && status === 404)) return new NoSuchObjectError('no such object');
  if (status === 507 || /QuotaExceeded|StorageFull/.test(name)) return new DiskFullError();
  const refusal = whyRefused(error, place);
  if (refusal !== undefined) return new BlobsAwayError(`S3 ${refusal}`, { needsOperator: true });
  // The SDK also calls reset connections TimeoutError, but those errors have a code.
  if (name === 'AbortError' || (name === 'TimeoutError' && code === ''))
    return new BlobsAwayError('S3 does not answer in time');
  const answer = status === undefined ? code || name : `${status} ${name}`;
  return new BlobsAwayError(`S3 cannot be reached or is too busy (${answer.slice(0, 80)})`);
}

/** The fix for an operator, continuing a sentence that starts with S3; undefined if waiting may help. */
function whyRefused(error: SdkError, { bucket, endpoint, pathStyle }: S3Location): string | undefined {
  const { name, code = '', message, $metadata: { httpStatusCode: status } = {} } = error;
  const host = endpoint === undefined ? 'AWS' : new URL(endpoint).host;
  switch (name) {
    case 'NoSuchBucket':
      return `has no bucket ${bucket} at ${host}. Create it, or correct blob_url`;
    case 'InvalidBucketName':
      return `at ${host} rejects the bucket name ${bucket}. Correct blob_url`;
    case 'InvalidAccessKeyId':
    case 'SignatureDoesNotMatch':
    case 'InvalidToken':
    case 'InvalidClientTokenId':
      return `at ${host} ${wrongKeys} (${name})`;
    case 'ExpiredToken':
      return `at ${host} reports that the credentials have expired. Renew them`;
    case 'RequestTimeTooSkewed':
      return `at ${host} reports that the clock of this machine is wrong. Set it`;
    case 'PermanentRedirect':
    case 'AuthorizationHeaderMalformed':
    case 'IllegalLocationConstraintException':
      return `reports that the bucket ${bucket} is in another region (${name}). Set it in blob_url: region=…`;
    case 'CredentialsProviderError':
      return 'needs credentials, and none were found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile in AWS_PROFILE, or give the machine a role';
  }
  if (status === 401 || status === 403)
    return `does not allow these credentials to use the bucket ${bucket} (${status} ${name.slice(0, 80)}). ${rights}`;
  if (message === 'Region is missing') return 'needs a region. Set it in blob_url: region=…, or in AWS_REGION';
  if (code === 'ENOTFOUND') {
    const hint =
      endpoint !== undefined && !pathStyle ? '. If it has no host names for buckets, add path_style=true' : '';
    return `was not found: the host name from blob_url does not exist${hint}`;
  }
  if (hasUntrustedIssuer(code) || unfit.has(code))
    return `at ${host} has an untrusted certificate (${code}). Set NODE_EXTRA_CA_CERTS to the file of its authority`;
  return undefined;
}

const rights =
  'They need s3:ListBucket, s3:ListBucketMultipartUploads, s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload';
