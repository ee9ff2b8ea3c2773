/** What a page says after something was done. The address names one of these, so nobody else can put words there. */
export const notices = {
  saved: 'Saved.',
  created: 'Created.',
  added: 'Added.',
  deleted: 'Deleted.',
  cancelled: 'Cancelled. What was running is being stopped.',
  started: 'Started.',
  invited: 'Invited.',
  sent: 'It is sent again.',
  shared: 'Shared with every account.',
  unshared: 'No longer shared.',
  uploaded: 'Uploaded. It is compiled next.',
} as const;

export type NoticeName = keyof typeof notices;
