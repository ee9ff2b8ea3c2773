/** The address contains only the name of a notice, so no link can show its own text on a page. */
export const notices = {
  saved: 'Saved.',
  forge_connected: 'Connected. Projects of this forge are set up in one step.',
  forge_checked: 'Checked.',
  forge_disconnected: 'Disconnected.',
  forge_token: 'The token is replaced, and what its projects lacked at the forge is put in place.',
  quieted: 'The step is shown again if it becomes slow after it was quick.',
  mended: 'Fixed. Its key, its hook and its statuses are at the forge.',
  created: 'Created.',
  added: 'Added.',
  deleted: 'Deleted.',
  revoked: 'It can no longer act for you.',
  cancelled: 'Cancelled. Running jobs are being stopped.',
  started: 'Started.',
  invited: 'Invited.',
  sent: 'It is sent again.',
  trying: 'The server tries again now.',
  replayed: 'It was judged once more. What came of it is below.',
  approved: 'Approved. It is built without secrets.',
  rejected: 'Rejected. It is not deployed.',
  build_approved: 'Approved. It begins as soon as it can.',
  shared: 'Shared with every account.',
  unshared: 'No longer shared.',
  updated: 'Updated to the current shared archive.',
  masks_words:
    'Saved. The content looks like ordinary words, and every place in the logs that says the same will be masked. If it is no secret, say so.',
  suspended: 'Suspended. No jobs run for this account.',
  resumed: 'Resumed. This account is let in again.',
  compiling: 'It is compiled again.',
  looking: 'The servers look again whether their runners start. That takes a few seconds.',
  handed_over: 'Handed over, or offered to the person, who must accept it.',
  uploaded: 'Uploaded. It is compiled next.',
} as const;

export type NoticeName = keyof typeof notices;

export function noticeNamed(name: string): string | undefined {
  return Object.hasOwn(notices, name) ? notices[name as NoticeName] : undefined;
}
