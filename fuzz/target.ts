import type { IAsyncProperty, IProperty } from 'fast-check';

/** Something that takes what strangers send, with a property that holds whatever that is. */
export interface Target {
  name: string;
  /** How often it is tried by `npm test`; `npm run fuzz` tries as often as its time allows. */
  runs: number;
  /** What is opened for it is closed by `close`, after the last try. */
  open(): Promise<OpenTarget> | OpenTarget;
}

export interface OpenTarget {
  property: AnyProperty;
  close?(): Promise<unknown> | void;
}

/** Of any input: only the runner of fast-check, which does not care, is ever given one. */
type AnyProperty = IAsyncProperty<unknown>;

export function anyProperty<Input>(property: IAsyncProperty<Input> | IProperty<Input>): AnyProperty {
  return property as AnyProperty;
}

/** A target that needs nothing opened. */
export function pure<Input>(name: string, runs: number, property: IAsyncProperty<Input> | IProperty<Input>): Target {
  return { name, runs, open: () => ({ property: anyProperty(property) }) };
}
