// Asked for when the server wants a token.

import { signIn } from "../api.js";
import { h, setShown, setText } from "../dom.js";
import { button } from "../parts/controls.js";
import { field } from "../parts/fields.js";

export const title = "Sign in";

/** Ask for a token until one is good; then `ondone`. */
export function show(page, { ondone }) {
  const token = h("input", { type: "password", autocomplete: "current-password", required: true });
  const trouble = h("p", { class: "form-error", role: "alert", hidden: true });
  const submit = button("Sign in", { kind: "primary", type: "submit" });
  const form = h(
    "form",
    { class: "card sign-in" },
    h("img", { src: "/static/logo.svg", alt: "", width: 40, height: 40 }),
    h("h1", { tabindex: "-1" }, "Sign in"),
    h(
      "p",
      { class: "muted" },
      "This server asks for a token: one of its setting ",
      h("code", {}, "tokens"),
      ".",
    ),
    field("Token", token),
    trouble,
    submit,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    const problem = await problemWith(token.value);
    submit.disabled = false;
    setText(trouble, problem);
    setShown(trouble, Boolean(problem));
    if (problem) token.select();
    else ondone();
  });
  page.append(h("div", { class: "sign-in-place" }, form));
  token.focus();
}

async function problemWith(token) {
  try {
    return (await signIn(token))
      ? ""
      : "This token is not one of the server's. Look at its setting tokens.";
  } catch (error) {
    return error.message;
  }
}
