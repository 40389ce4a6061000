//! The page's files, as they lie in `page`: no other is ever served.

/// The content type and the text of the file at a path.
pub(crate) fn file(path: &str) -> Option<(&'static str, &'static str)> {
    let (_, content_type, text) = FILES.into_iter().find(|(at, _, _)| *at == path)?;
    Some((content_type, text))
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

const FILES: [(&str, &str, &str); 15] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/icon.svg", PICTURE, include_str!("page/icon.svg")),
    ("/style.css", STYLE, include_str!("page/style.css")),
    ("/app.js", SCRIPT, include_str!("page/app.js")),
    ("/charts.js", SCRIPT, include_str!("page/charts.js")),
    ("/data.js", SCRIPT, include_str!("page/data.js")),
    ("/elements.js", SCRIPT, include_str!("page/elements.js")),
    ("/graph.js", SCRIPT, include_str!("page/graph.js")),
    ("/names.js", SCRIPT, include_str!("page/names.js")),
    ("/session.js", SCRIPT, include_str!("page/session.js")),
    ("/tables.js", SCRIPT, include_str!("page/tables.js")),
    ("/trace.js", SCRIPT, include_str!("page/trace.js")),
    ("/trades.js", SCRIPT, include_str!("page/trades.js")),
    ("/views.js", SCRIPT, include_str!("page/views.js")),
    ("/words.js", SCRIPT, include_str!("page/words.js")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_its_files_is_served() {
        assert!(file("/").is_some_and(|(kind, _)| kind == HTML));
        for path in ["", "/index.html", "/page.rs", "/../Cargo.toml", "//", "/app.js/", "/APP.JS"] {
            assert!(file(path).is_none(), "{path}");
        }
    }

    /// What would load something from elsewhere, run what is in no file, or make elements of text.
    #[test]
    fn the_page_asks_nobody_else_and_makes_no_markup() {
        for (path, _, text) in FILES {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for bad in [
                "http:",
                "https:",
                "//cdn",
                "@import",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "style=\"",
                " onclick=\"",
                "<script>",
                "javascript:",
            ] {
                assert!(!text.contains(bad), "{path} has {bad}");
            }
        }
    }

    #[test]
    fn each_file_that_is_named_is_there() {
        for (path, _, text) in FILES {
            let imports = text.split("from \".").skip(1).filter_map(|rest| rest.split('"').next());
            let links = ["href=\"/", "src=\"/"].into_iter().flat_map(|mark| {
                text.split(mark).skip(1).filter_map(|rest| rest.split('"').next())
            });
            let named = imports.map(str::to_owned).chain(links.map(|link| format!("/{link}")));
            for named in named {
                assert!(file(&named).is_some(), "{path} names {named}");
            }
        }
    }
}
