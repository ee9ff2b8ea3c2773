import * as Type from 'typebox';

/** Why it waits, in words. */
export const waitingReason = Type.String({ description: 'Why it waits, in words; blank when it does not wait' });
/** Of records whose waiting is told only where it is in vain. */
export const reasonInVain = Type.Optional(
  Type.String({ description: 'Why no runner can take it; left out where one can' }),
);
