/** RFC 6266: the name in ASCII and in full (RFC 8187). It cannot end the value or lead to another folder. */
export function attachmentHeader(fileName: string): string {
  const name = fileName.replaceAll(/[\p{Cc}/\\]/gu, '_').replace(/^\.+/, (dots) => '_'.repeat(dots.length));
  const plain = name.replaceAll(/[^A-Za-z0-9 ._()+,=@-]/gu, '_');
  const full = encodeURIComponent(name).replaceAll(
    /['()*!]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${plain}"; filename*=UTF-8''${full}`;
}
