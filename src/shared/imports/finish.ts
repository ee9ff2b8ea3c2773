import { longest, most } from '../domain/bounds.ts';
import { machineImage } from './images.ts';
import type { Suite } from './model.ts';
import { sudoStep, usesRoot, usesSudo } from './shell.ts';

/** What a suite needs so that its steps run. False if none is left. `machine` is the label of the hosted machine. */
export function finishSuite(suite: Suite, machine = ''): boolean {
  const run = suite.steps.filter(({ command }) => command !== '');
  if (run.length === 0) return false;
  const scripts = run.map(({ command }) => command).join('\n');
  if (suite.fields.image === undefined && usesRoot(scripts)) suite.fields.image = machineImage(machine);
  if (suite.fields.image !== undefined && usesRoot(scripts)) {
    const update = /\bapt(?:-get)? (?:-\S+ )*update\b/.test(scripts)
      ? ''
      : '\nif command -v apt-get; then apt-get update; fi';
    const lines = usesSudo(scripts) ? `${sudoStep.command}${update}` : update.trim();
    if (lines !== '') suite.steps.unshift({ name: 'set up', command: lines, notes: [] });
  }
  for (const step of suite.steps)
    if (step.command.length > longest.command) {
      step.notes.push(`A command has at most ${longest.command} characters, so it was cut off.`);
      step.command = step.command.slice(0, longest.command);
    }
  // Notes at a place without a command stay, in front of the next step.
  if (run.length > most.stepsOfSuite) joinSteps(suite);
  return true;
}

/** The last ones become one step, each part in a shell of its own. */
function joinSteps(suite: Suite): void {
  const first = suite.steps.slice(0, most.stepsOfSuite - 1);
  const rest = suite.steps.slice(most.stepsOfSuite - 1);
  const command = rest
    .filter((step) => step.command !== '')
    .map((step) => `(\n${step.command}\n)`)
    .join('\n');
  suite.steps = [...first, { name: 'the other steps', command, notes: rest.flatMap(({ notes }) => notes) }];
}
