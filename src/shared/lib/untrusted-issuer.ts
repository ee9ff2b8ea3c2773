/** OpenSSL's codes for a certificate without a trusted issuer. */
const codes = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
]);

export function hasUntrustedIssuer(code: string | undefined): boolean {
  return codes.has(code ?? '');
}
