import { roles, type Role } from '../http/route.ts';

/** The roles of an organisation's members. */
export type MemberRole = Exclude<Role, 'public'>;
const memberRoles: readonly MemberRole[] = ['viewer', 'developer', 'maintainer', 'owner'];

/** Whether `role` may do what is asked of `asked`. */
export function includes(role: Role, asked: Role): boolean {
  return roles.indexOf(role) >= roles.indexOf(asked);
}

/** The role and those that may do more. */
export function rolesFrom(role: MemberRole): MemberRole[] {
  return memberRoles.filter((one) => includes(one, role));
}
