(() => {
  const {times, fields} = JSON.parse(document.getElementById("frames").textContent);
  const player = document.getElementById("player"), moment = document.getElementById("moment");
  const play = document.getElementById("play"), time = document.getElementById("time");
  const last = times.length - 1, parts = [["truth", "truth"], ["guess", "prediction"], ["error", "error"]];
  let field = fields[0];
  let playing = !matchMedia("(prefers-reduced-motion: reduce)").matches, held = 0;
  const draw = (i) => {
    moment.value = i;
    time.textContent = "t = " + times[i];
    for (const screen of player.querySelectorAll(".screen"))
      screen.style.backgroundPosition = (last ? 100 * i / last : 0) + "% 0";
    if (field.lines) for (const [name, part] of parts) {
      const line = field.lines[part][i], n = line.length;
      player.querySelector("polyline." + name).setAttribute("points", line.map((y, k) => (100 * (k + .5) / n).toFixed(2) + "," + y).join(" "));
    }
  };
  const choose = (number) => {
    field = fields[number];
    const ends = {...field, least: "−" + field.worst};
    for (const place of player.querySelectorAll("[data-end]"))
      place.textContent = ends[place.dataset.end];
    for (const screen of player.querySelectorAll(".screen"))
      screen.style.backgroundImage = "url(" + field.strips[screen.dataset.part] + ")";
    for (const button of player.querySelectorAll("[data-field]"))
      button.setAttribute("aria-pressed", +button.dataset.field === number);
    draw(+moment.value);
  };
  for (const button of player.querySelectorAll("[data-field]"))
    button.addEventListener("click", () => choose(+button.dataset.field));
  const show = () => { play.classList.toggle("playing", playing); };
  play.addEventListener("click", () => { playing = !playing; show(); });
  moment.addEventListener("input", () => { playing = false; show(); draw(+moment.value); });
  setInterval(() => {
    if (!playing) return;
    const i = +moment.value;
    if (i < last) draw(i + 1); else if (++held > 12) { held = 0; draw(0); }
  }, 90);
  moment.value = playing ? 0 : last;
  choose(0); show();
})();
