import * as Type from 'typebox';

export const waitingReason = Type.String({ description: 'Why it waits, in words; blank when it does not wait' });
/** For records that have a reason only if they wait in vain. */
export const reasonInVain = Type.Optional(Type.String({ description: 'Why no runner can take it; absent if one can' }));
