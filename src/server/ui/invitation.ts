import { findInvitation, type Invitation } from '../auth/organisations.ts';
import { joinAs, joinWithPassword } from '../auth/join.ts';
import { html } from './html.ts';
import { keyField, problem, type Page } from './layout.ts';
import { mistakeIn, newPasswordFields } from './password.ts';
import { signInFirst, type PageRoute, type SiteVisit } from './site.ts';

const worksNoMore = problem(
  404,
  'This invitation is no longer valid',
  'It was used or withdrawn, or it is older than a week. An owner of the organisation can invite you again.',
);

interface Shown {
  visit: SiteVisit;
  token: string;
  invitation: Invitation;
  mistake?: string;
}

function invitationPage({ visit, token, invitation, mistake }: Shown): Page {
  const { email, organisation, role } = invitation;
  const { person } = visit.visitor;
  const isTheirs = person?.id === invitation.user_id;
  const signIn = `/ui/sign-in?${new URLSearchParams({ return: visit.url }).toString()}`;
  const fields = html`${keyField(visit.formKey)}<input type="hidden" name="token" value="${token}" />`;
  const way = isTheirs
    ? html`<form method="post" action="/ui/invitation">${fields}<button class="main">Join</button></form>`
    : mustSignIn(visit, invitation)
      ? html`<p>
          <a href="${signIn}">Sign in</a> as ${email} to join. If you cannot sign in yet, the operator of this server
          can make a link for you.
        </p>`
      : html`<form method="post" action="/ui/invitation">
          ${fields}
          <input type="email" name="email" autocomplete="username" value="${email}" readonly hidden />
          ${newPasswordFields(mistake)}
          <button class="main">Set password and join</button>
        </form>`;
  return {
    title: `Join ${organisation}`,
    isNarrow: true,
    status: mistake === undefined ? 200 : 403,
    main: html`<div class="card">
      <h1>Join ${organisation}</h1>
      <p>You are invited to the organisation <strong>${organisation}</strong> as ${role}, with the account ${email}.</p>
      ${way}
    </div>`,
  };
}

/**
 * The inviter also knows the address of this page, so it must not open what others gave the account. Nor does it make a
 * password where passwords do not sign in.
 */
function mustSignIn({ site }: SiteVisit, { has_password: hasPassword, has_access: hasAccess }: Invitation): boolean {
  return hasPassword || hasAccess || !site.rules.takesPasswords;
}

export const routes: PageRoute[] = [
  {
    method: 'GET',
    path: '/ui/invitation',
    async visit(visit) {
      const token = visit.queryText('token');
      const invitation = await findInvitation(visit.site.db.read, token);
      return invitation ? invitationPage({ visit, token, invitation }) : worksNoMore;
    },
  },
  {
    method: 'POST',
    path: '/ui/invitation',
    async visit(visit) {
      const { site, formText, address, visitor } = visit;
      const [token, password] = [formText('token'), formText('password')];
      const invitation = await findInvitation(site.db.read, token);
      if (!invitation) return worksNoMore;
      const joined = { goTo: `/ui/organisations/${invitation.organisation}`, status: 303 } as const;
      if (visitor.person?.id === invitation.user_id)
        return (await joinAs(site, visitor.person, { token, address })) ? joined : worksNoMore;
      if (mustSignIn(visit, invitation))
        return signInFirst(`/ui/invitation?${new URLSearchParams({ token }).toString()}`);
      const mistake = mistakeIn(password, formText('again'), invitation.email);
      if (mistake !== undefined) return invitationPage({ visit, token, invitation, mistake });
      const session = await joinWithPassword(site, { token, password, address });
      if (session === undefined) return worksNoMore;
      visit.signIn(session);
      return joined;
    },
  },
];
